"""What `search` finds: every filter, order, pages, words, snippets and freshness, over the real socket."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.library import APP, APPLE, CHILD, EVERYONE, FIX, FORK, PARENT, SUB, Library
from tests.support.sessions import Call, PiSession


@pytest.fixture(scope="module")
def blank() -> Iterator[Daemon]:
    """For tests that write sessions of their own, with words of their own."""
    with Daemon() as daemon:
        yield daemon


def found(library: Library, query: str = "quince", **filters: Any) -> set[str]:
    ids = library.daemon.found(query, **filters)
    assert len(ids) == len(set(ids))
    return set(ids)


def listed(library: Library, **filters: Any) -> set[str]:
    answer = library.daemon.call("list_sessions", **filters)
    ids = [session["sessionId"] for session in answer["sessions"]]
    assert answer["total"] == len(ids) == len(set(ids))
    return set(ids)


def best(daemon: Daemon, query: str, **params: Any) -> Any:
    return daemon.call("search", query=query, **params)["results"][0]


# -- filters


def test_cwd(library: Library) -> None:
    """`cwd` means that directory and below; a worktree is found by its repository, and the other way round."""
    project = {APP, SUB, FIX, FORK}
    for cwd in (library.cwd("app"), library.cwd("app-fix"), library.cwd("app") + "/"):
        assert found(library, cwd=cwd) == project - {FORK}  # its copy of the prompt is indexed once
        assert listed(library, cwd=cwd) == project


def test_cwd_of_a_part(library: Library) -> None:
    """`cwd` below the top of a repository means only what is there."""
    assert found(library, cwd=library.cwd("app/sub")) == listed(library, cwd=library.cwd("app/sub")) == {SUB}


def test_cwd_of_a_sibling(library: Library) -> None:
    """A directory whose name only begins the same is another one."""
    assert found(library, cwd=library.cwd("apple")) == {APPLE}
    assert found(library, cwd=library.cwd("app")[:-1]) == set()
    assert found(library, cwd=str(library.code)) == EVERYONE - {FORK}


def test_cwd_without_wildcards() -> None:
    """No character of a directory's name is a wildcard."""
    with Daemon() as daemon:
        for number, cwd in enumerate(("/a/b_c", "/a/bXc", "/a/b%c/d", "/a/bZc/d", "/a/B_C", "/a/b*")):
            daemon.write(f"{number}.jsonl", PiSession(id=f"s{number}", cwd=cwd).user("quince").bytes())
        daemon.sync()
        assert daemon.found("quince", cwd="/a/b_c") == ["s0"]
        assert daemon.found("quince", cwd="/a/b%c") == ["s2"]
        assert daemon.found("quince", cwd="/a/b*") == ["s5"]
        assert len(daemon.found("quince", cwd="/")) == 6


def test_after(library: Library) -> None:
    """`after` keeps sessions whose last activity is not before."""
    for after in (
        "2026-03-03",
        "2026-03-03T00:00:00Z",
        "2026-03-03T02:00:00+02:00",
        "2026-03-02T23:59:59.999Z",
        "2026-03-03T09:00:01.000Z",
    ):
        assert found(library, after=after) == {FIX, APPLE, PARENT}, after
    assert found(library, after="2026-03-03T09:00:01.001Z") == {APPLE, PARENT}


def test_before(library: Library) -> None:
    """`before` keeps sessions whose first activity is before."""
    for before in ("2026-03-03", "2026-03-03T00:00:00Z", "2026-03-03T09:00:01.000Z"):
        assert found(library, before=before) == {APP, SUB}, before
    assert found(library, before="2026-03-03T09:00:01.001Z") == {APP, SUB, FIX}
    assert found(library, after="2026-03-02", before="2026-03-03") == {SUB}


def test_whole_days_weeks_and_months(library: Library) -> None:
    """`until` takes what is named with it, `on` nothing else; where days are is said by the asker."""
    assert found(library, until="2026-03-02") == found(library, before="2026-03-03") == {APP, SUB}
    assert found(library, on="2026-03-02") == found(library, on="2 march 2026") == {SUB}
    assert found(library, on="2026-W09") == found(library, on="1 March 2026", timeZone="Europe/Berlin") == {APP}
    assert found(library, on="2026-03-02", timeZone="Pacific/Niue") == {FIX}  # where it begins 11 hours later
    assert found(library, on="march 2026") == found(library, on="2026") == EVERYONE - {FORK}
    assert found(library, on="yesterday") == found(library, after="last week") == set()
    assert found(library, before="today") == found(library, until="last month", timeZone="local") == EVERYONE - {FORK}


@pytest.mark.parametrize(
    ("ago", "within"),
    [("12h", False), ("1d", False), ("36500d", True), ("5000w", True), ("1200mo", True), ("90min", False)],
)
def test_times_ago(library: Library, ago: str, within: bool) -> None:
    """`30min`, `12h`, `7d`, `2w` and `1mo` count back from now."""
    assert found(library, after=ago) == (EVERYONE - {FORK} if within else set())
    assert found(library, before=ago) == (set() if within else EVERYONE - {FORK})


@pytest.mark.parametrize("time", ["soon", "", "7", "7x", "2026-13-01", "-3d", "12 h", "30m", "\u0661d"])
def test_no_time(library: Library, time: str) -> None:
    """What is no time is refused by the filter's name."""
    refusal = library.daemon.refuses("search", query="quince", after=time)
    assert (refusal.code, "after" in refusal.message) == (-32602, True)


def test_source(library: Library) -> None:
    """`source` is one parser or several."""
    assert found(library, source="pi") == found(library, source=["codex", "pi"]) == EVERYONE - {FORK}
    assert found(library, source="codex") == found(library, source=[]) == set()


def test_role(library: Library) -> None:
    """`role` is one or several, of messages; a tool call is none."""
    assert found(library, "rutabaga", role="assistant") == {APP}
    assert found(library, "rutabaga", role="user") == set()
    assert found(library, "rutabaga", role=["user", "assistant"]) == {APP}
    assert found(library, "celeriac", role=["user", "assistant", "custom", "summary"]) == set()
    assert listed(library, role="assistant", cwd=library.cwd("app")) == {APP, FORK}


def test_tool(library: Library) -> None:
    """`tool` is one name or several, of tool calls."""
    assert found(library, "celeriac", tool="bash") == {APP, APPLE}
    assert found(library, "celeriac", tool="read") == {APPLE}
    assert found(library, "celeriac", tool=["read", "edit"]) == {APP, APPLE}
    assert found(library, "quince", tool="bash") == {APPLE}
    assert listed(library, tool="edit") == {APP, FORK}


def test_tools(library: Library) -> None:
    """`tools` keeps tool calls only."""
    assert found(library, "quince", tools=True) == {APPLE}
    assert best(library.daemon, "quince", tools=True)["match"]["kind"] == "tool_call"
    assert listed(library, tools=True) == {APP, FORK, APPLE}


def test_status(library: Library) -> None:
    """`status` keeps tool calls that failed, or that did not."""
    assert found(library, "celeriac", status="error") == {APP}
    assert found(library, "kohlrabi", status="success") == set()
    assert found(library, "celeriac", status="success") == {APP, APPLE}


@pytest.mark.parametrize("path", ["config.ts", "src/config.ts", "/src/config.ts/", "app/src/config.ts"])
def test_path(library: Library, path: str) -> None:
    """`path` means whole trailing parts of a touched file's path."""
    if path.startswith("/"):
        path = library.cwd("app") + path.rstrip("/")
    assert found(library, "celeriac", path=path) == {APP}
    assert listed(library, path=path) == {APP, FORK}


@pytest.mark.parametrize("path", ["src", "src/", "./src", "app/src/", "/src/", "/src"])
def test_path_of_a_directory(library: Library, path: str) -> None:
    """Everything below it that was touched."""
    if path.startswith("/s"):
        path = library.cwd("app") + path
    others = set() if "app" in path else {APPLE}
    assert found(library, "celeriac", path=path) == {APP} | others
    assert listed(library, path=path) == {APP, FORK} | others


def test_path_in_the_home_directory(blank: Daemon) -> None:
    """`~` in a call, in a question, or in both."""
    home = blank.environ()["HOME"]
    for name, path in (("tilde", "~/pieplant/one.txt"), ("whole", f"{home}/pieplant/two.txt")):
        blank.write(
            f"{name}.jsonl", PiSession(id=name).user("x").assistant("", [Call("read", {"path": path}, "c1")]).bytes()
        )
    blank.sync()
    assert (
        set(blank.found("*", path="~/pieplant"))
        == set(blank.found("*", path=f"{home}/pieplant/"))
        == {"tilde", "whole"}
    )
    assert blank.found("*", path="~/pieplant/two.txt") == ["whole"]


def test_path_on_windows(blank: Daemon) -> None:
    """By parts, whichever stroke they have; case as it is."""
    call = Call("read", {"path": "src\\burdock.ts"}, "c1")
    blank.write("windows.jsonl", PiSession(id="windows-1", cwd="C:\\code\\app").user("x").assistant("", [call]).bytes())
    blank.sync()
    for path in (
        "burdock.ts", "src/burdock.ts", "src\\burdock.ts", "C:\\code\\app\\src\\burdock.ts", "C:/code/app/src/burdock.ts",
        "C:\\code", "C:\\code\\app\\", "code/app", "app\\src\\",
    ):  # fmt: skip
        assert blank.found("*", path=path) == ["windows-1"], path
    for path in ("c:\\code", "Burdock.ts", "D:\\code", "urdock.ts", "C:\\code\\app\\burdock.ts"):
        assert blank.found("*", path=path) == [], path


def test_path_of_a_patch_that_a_shell_applied(blank: Daemon) -> None:
    """An argument of its own, or a document in the shell's text."""
    patch = "*** Begin Patch\n*** Update File: src/{}\n@@\n*** End Patch"
    calls = [
        Call("shell", {"command": ["apply_patch", patch.format("salsify1.ts")]}, "c1"),
        Call("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{patch.format('salsify2.ts')}\nEOF"]}, "c2"),
        Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch.format('salsify3.ts')}\nEOF"}, "c3"),
        Call("shell", {"command": "sed -i s/a/b/ src/salsify4.ts"}, "c4"),
    ]
    blank.write("patch.jsonl", PiSession(id="patch-1", cwd="/w").user("x").assistant("", calls).bytes())
    blank.sync()
    for number in (1, 2, 3):
        hits = blank.call("search", query=f"salsify{number}", path=f"/w/src/salsify{number}.ts")["results"]
        assert [hit["match"]["msgIdx"] for hit in hits] == [number]
    assert blank.found("*", path="salsify4.ts") == []


@pytest.mark.parametrize(
    "path",
    [
        "onfig.ts",
        "config",
        "rc/config.ts",
        "/src/config.ts",
        "CONFIG.TS",
        "%.ts",
        "sr",
        "rc",
        "/src",
        "config.ts/",
        "SRC/",
    ],
)
def test_no_path(library: Library, path: str) -> None:
    """Parts of names, and parts that are not the last ones, are none."""
    assert found(library, "celeriac", path=path) == listed(library, path=path) == set()


def test_exclude(library: Library) -> None:
    """`exclude` leaves sessions out, by id or `source:id`; a record that another one holds is then found there."""
    assert found(library, exclude=APPLE) == EVERYONE - {FORK, APPLE}
    assert found(library, exclude=[APPLE, f"pi:{SUB}"]) == EVERYONE - {FORK, APPLE, SUB}
    assert found(library, exclude=APP) == EVERYONE - {APP}
    assert listed(library, exclude=[APPLE, CHILD]) == EVERYONE - {APPLE}


def test_workstation(library: Library) -> None:
    """`workstation` is the first part of the key."""
    assert found(library, workstation="0123abcd") == EVERYONE - {FORK}
    assert found(library, workstation="0123abce") == set()
    assert best(library.daemon, "quince")["key"].startswith("0123abcd:")


def test_project(library: Library) -> None:
    """`project` is the second part of the key: of the working directory."""
    project = hashlib.sha256(library.cwd("app").encode()).hexdigest()[:8]
    assert found(library, project=project) == {APP}
    assert listed(library, project=project) == {APP, FORK}


def test_tools_by_what_they_do(library: Library) -> None:
    """A family finds its tools, whatever they are called; a name that no call has is said, with the nearest."""
    assert found(library, "celeriac", toolFamily="shell") == found(library, "celeriac", tool="BASH") == {APP, APPLE}
    assert listed(library, toolFamily=["edit", "web"]) == {APP, FORK}
    assert listed(library, toolFamily=["mcp", "edit", "web"] * 300) == {APP, FORK}
    assert library.daemon.refuses("search", query="x", toolFamily="shel").code == -32602
    told = "no indexed call uses a tool named 'bish'; nearest: bash, "
    for method, params in (("search", {"query": "quince"}), ("search_sessions", {"query": ""}), ("list_sessions", {})):
        (warning,) = library.daemon.call(method, tool=["bish", "edit"], **params)["warnings"]
        assert warning.startswith(told)
    several = library.daemon.call("list_sessions", tool=[f"tool{number}" for number in range(1000)])["warnings"]
    assert (len(several), several[-1]) == (4, "nor do indexed calls use 997 other tools that are asked for")


def test_filters_together(library: Library) -> None:
    """Filters narrow each other."""
    assert found(library, "celeriac", tool="bash", status="success", cwd=library.cwd("apple")) == {APPLE}
    assert found(library, "celeriac", tool="bash", status="success", cwd=library.cwd("app")) == set()


# -- subagents


def test_subagents_are_folded(library: Library) -> None:
    """A hit in a subagent is its parent's; `match` names the session and file that really matched."""
    hit = best(library.daemon, "medlar")
    assert (hit["sessionId"], hit["match"]["sessionId"]) == (PARENT, CHILD)
    assert (hit["path"], hit["match"]["path"]) == (library.paths[PARENT], library.paths[CHILD])
    assert not hit["subagent"]


def test_subagents_are_folded_in_lists(library: Library) -> None:
    """Lists have parents only, unless asked for more."""
    assert listed(library) == EVERYONE
    assert {hit["sessionId"] for hit in library.daemon.call("search", query="*")["results"]} == EVERYONE


def test_subagents_exclude(library: Library) -> None:
    """`exclude` leaves what subagents did out."""
    assert found(library, "medlar", subagents="exclude") == set()
    assert listed(library, subagents="exclude") == EVERYONE


def test_subagents_only(library: Library) -> None:
    """`only` asks for subagents themselves."""
    matches = {
        hit["match"]["sessionId"] for hit in library.daemon.call("search", query="medlar", subagents="only")["results"]
    }
    assert matches == {CHILD}
    assert found(library, "quince", subagents="only") == set()
    assert listed(library, subagents="only") == {CHILD}


# -- order and pages


@pytest.mark.parametrize("query", ["", "*", "  ", " * "])
def test_everything(library: Library, query: str) -> None:
    """`*` or nothing lists sessions, newest first."""
    results = library.daemon.call("search", query=query, subagents="exclude")["results"]
    assert [hit["sessionId"] for hit in results] == [PARENT, APPLE, FIX, SUB, FORK, APP]


def test_sort_recent(library: Library) -> None:
    """`recent` puts the newest activity first."""
    assert library.daemon.found("quince", sort="recent") == [PARENT, APPLE, FIX, SUB, APP]


def test_messages_above_tool_calls(library: Library) -> None:
    """A message is above every tool call that has the same word."""
    hits = library.daemon.call("search", query="quince")["results"]
    kinds = [hit["match"]["kind"] for hit in hits]
    assert kinds == sorted(kinds)
    hits = library.daemon.call("search", query="celeriac quince")["results"]
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert all(0 <= hit["score"] <= 1 for hit in hits)


def test_limit_and_offset(library: Library) -> None:
    """Pages neither overlap nor leave anything out."""
    whole = library.daemon.found("quince")
    pages = [library.daemon.found("quince", limit=2, offset=offset) for offset in range(0, 8, 2)]
    assert [id_ for page in pages for id_ in page] == whole
    assert library.daemon.found("quince", limit=0) == []
    assert library.daemon.found("quince", offset=10**9) == []


def test_total_and_next_offset(library: Library) -> None:
    """Every page says how many hits there are, and where the next one begins."""
    for query in ("quince", "*"):
        total = len(library.daemon.found(query))
        for offset, following in ((0, 2), (2, 4), (total - 1, None), (total, None), (10**9, None)):
            answer = library.daemon.call("search", query=query, limit=2, offset=offset)
            assert (answer["total"], answer["totalExact"], answer["nextOffset"]) == (total, True, following)
            assert answer["filteredOut"] == 0
        assert library.daemon.call("search", query=query, limit=0)["nextOffset"] is None


def test_similar_to(library: Library) -> None:
    """What is shown as one with a hit: its subagents, and forks with copies of what matches; in lists likewise."""
    assert found(library, "medlar", similarTo=PARENT) == listed(library, similarTo=PARENT) == {CHILD}
    hit = best(library.daemon, "rutabaga")
    assert (hit["sessionId"], hit["similar"]) == (APP, 1)
    assert found(library, "rutabaga", similarTo=APP) == {FORK}
    assert FORK in listed(library, similarTo=f"pi:{APP}")
    assert found(library, "medlar", similarTo=APPLE) == set()
    assert library.daemon.refuses("search", query="quince", similarTo="nothing").code == 1


@pytest.mark.fault(91)
def test_limits_are_clamped(blank: Daemon) -> None:
    """Numbers above a bound are clamped to it."""
    for number in range(505):
        blank.write(
            f"many/{number}.jsonl",
            PiSession(id=f"many-{number:04}", start="2020-01-01T00:00:00Z").user(f"yacon {number}").bytes(),
        )
    blank.sync()
    assert len(blank.found("yacon", limit=10**12)) == 100
    assert len(blank.found("yacon")) == 10
    assert len(blank.call("list_sessions", limit=10**12)["sessions"]) == 500
    assert len(blank.call("list_sessions")["sessions"]) == 50
    assert blank.found("yacon", offset=2**63 - 1) == []


# -- words and snippets


def test_words(library: Library) -> None:
    """`words` counts the chunks that hold each word, whatever the filters; so a miss explains itself."""
    answer = library.daemon.call("search", query="Quinces kohlrabi nowhere", cwd="/nowhere")
    assert answer["words"] == [
        {"word": "Quinces", "chunks": 6, "forms": 0, "headings": 0},
        {"word": "kohlrabi", "chunks": 1, "forms": 0, "headings": 0},
        {"word": "nowhere", "chunks": 0, "forms": 0, "headings": 0},
    ]


def test_matched_and_missing_words(library: Library) -> None:
    """Each hit says which words it has, and which it lacks."""
    hit = best(library.daemon, "simplify infrastructure medlar")
    assert (hit["matchedWords"], hit["missingWords"]) == (["simplify", "infrastructure"], ["medlar"])


def test_filtered_out(library: Library) -> None:
    """When the filters leave no hit, `filteredOut` counts those that there are without."""
    assert library.daemon.call("search", query="quince", cwd="/nowhere")["filteredOut"] == 5
    assert library.daemon.call("search", query="celeriac", tool="nothing")["filteredOut"] == 2
    assert library.daemon.call("search", query="quince")["filteredOut"] == 0
    assert library.daemon.call("search", query="nowhere", cwd="/nowhere")["filteredOut"] == 0
    newest = library.daemon.call("search", query="")
    assert newest["filteredOut"] == 0
    assert library.daemon.call("search", query="", cwd="/nowhere")["filteredOut"] == newest["total"]
    alike = [library.daemon.call("search", query="quince", similarTo=one["sessionId"]) for one in newest["results"]]
    assert {answer["filteredOut"] for answer in alike if not answer["resultCount"]} == {0}


def test_dropped_words(library: Library) -> None:
    """Words without a letter or digit are dropped, and named."""
    answer = library.daemon.call("search", query="-- quince !!")
    assert answer["dropped"] == ["--", "!!"]
    assert answer["resultCount"] == 5
    assert library.daemon.call("search", query="?!")["results"] == []


@pytest.mark.fault(90)
@pytest.mark.parametrize(
    "query",
    ['"quince', "quince NOT", "(quince", "quince*", "^quince", "NEAR( quince", "quince:", "-quince", "qu\0 quince"],
)
def test_no_syntax(library: Library, query: str) -> None:
    """No character is query syntax; there is no query that fails."""
    assert found(library, query) == EVERYONE - {FORK}


def test_highlights_are_code_points(blank: Daemon) -> None:
    """`highlights` are ranges of code points of the snippet, whatever stands before the match."""
    blank.write(
        "code-points.jsonl",
        PiSession(id="points-1").user("🎉👩‍👩‍👧 naïve 漢字 e\u0301 ünïgrüntz: the Salsify is salsified, über").bytes(),
    )
    blank.sync()
    for query, expected in (("salsify", ["Salsify", "salsified"]), ("über", ["über"]), ("UNIGRUNTZ", ["ünïgrüntz"])):
        hit = best(blank, query)
        assert [hit["matchedSnippet"][first:last] for first, last in hit["highlights"]] == expected


def test_highlights_far_into_a_text(blank: Daemon) -> None:
    """The snippet is where the match is, however far into the text."""
    blank.write(
        "far.jsonl", PiSession(id="far-1").user("ünïcödé wörds. " * 3000 + "here is the\nskirret, at last").bytes()
    )
    blank.sync()
    hit = best(blank, "skirret")
    assert [hit["matchedSnippet"][first:last] for first, last in hit["highlights"]] == ["skirret"]
    assert "\n" not in hit["matchedSnippet"]
    assert len(hit["matchedSnippet"]) <= 300


HIDDEN = "\u202e\u034f\u115f\u17b4\u180b\u3164\uffa0\U000e0100\U000e01ef\U000e0041"


def test_what_nobody_sees_leaves_in_no_answer(blank: Daemon) -> None:
    """Neither in a snippet nor in the name of a tool; calls under names that look the same are counted and filtered as one."""
    odd, plain = Call(f"ba\x1b[31msh{HIDDEN}", {"command": f"scorzonera{HIDDEN} now"}, "c1"), Call("bash", {}, "c2")
    text = f"{HIDDEN}\x1b]0;title\x07before{HIDDEN}\r\nthe {HIDDEN} scorzo{HIDDEN}nera and scorzonera\x1b[1m, at last"
    session = PiSession(id="hidden-1").user(text).assistant("", [odd, plain]).result(odd, "done").result(plain, "done")
    blank.write("hidden.jsonl", session.bytes())
    blank.sync()
    hit = best(blank, "scorzonera")
    assert hit["matchedSnippet"] == "before the scorzonera and scorzonera, at last"
    assert [hit["matchedSnippet"][first:last] for first, last in hit["highlights"]] == ["scorzonera"] * 2
    call = best(blank, "scorzonera", tool=["bash"])
    assert call["match"]["toolName"] == "bash"
    assert call == best(blank, "scorzonera", tool=odd.name)
    assert not set(HIDDEN + "\x1b") & set(json.dumps([hit, call], ensure_ascii=False))
    assert blank.call("get_session_meta", sessionId="hidden-1")["toolCounts"] == {"bash": 2}
    messages = blank.call("list_messages", sessionId="hidden-1")["messages"]
    assert [message["toolName"] for message in messages] == [None, "bash", "bash"]
    (window,) = blank.call("search_sessions", query="scorzonera")["hits"]
    assert window["window"][0]["snippet"].startswith("before\nthe  scorzonera and")


def test_words_are_found_as_they_are_seen(blank: Daemon) -> None:
    """Those behind a colour, across a hidden hyphen, and behind a line break of an argument within an argument; in the question, too."""
    edits = [{"oldText": "first\nhornbill = 1\n\tquetzal()", "newText": "cassowary"}]
    edit, run = (
        Call("edit", {"path": "a.py", "edits": edits}, "c1"),
        Call("shell", {"command": ["sh", "-c", "x\nbittern"]}, "c2"),
    )
    session = PiSession(id="seen-1").user("the spoon\u00adbill").assistant("", [edit, run])
    session.result(edit, "\x1b[31mflamingo\x1b[0m").result(run, "\x9b32mavocet\x9b0m")
    blank.write("seen.jsonl", session.bytes())
    blank.sync()
    for word in (
        "hornbill",
        "quetzal",
        "cassowary",
        "bittern",
        "flamingo",
        "avocet",
        "spoonbill",
        "spoon\u200bbill",
        "\x1b[1mavocet",
    ):
        assert blank.found(word) == ["seen-1"], word
    for word in ("nhornbill", "tquetzal", "31mflamingo", "32mavocet"):
        assert blank.found(word) == [], word
    messages = blank.call("list_messages", sessionId="seen-1")["messages"]
    assert messages[1]["text"] == (
        "tool: edit\npath: a.py\nedits[0].oldText:\nfirst\nhornbill = 1\n\tquetzal()\nedits[0].newText: cassowary\noutput:\nflamingo"
    )
    assert messages[2]["text"] == "tool: shell\ncommand:\nsh -c\nx\nbittern\noutput:\navocet"


def test_call_and_output_are_one_hit(library: Library) -> None:
    """A command and its output are one record: a query with words of both finds it once."""
    hits = library.daemon.call("search", query="celeriac kohlrabi", tools=True)["results"]
    assert [hit["sessionId"] for hit in hits].count(APP) == 1
    assert hits[0]["matchedWords"] == ["celeriac", "kohlrabi"]
    assert (hits[0]["match"]["toolName"], hits[0]["match"]["msgIdx"]) == ("bash", 2)


def test_match_points_into_the_session(library: Library) -> None:
    """`match` says where: reading there gives the record."""
    for query in ("kohlrabi", "rutabaga", "parsnip", "medlar"):
        match = best(library.daemon, query)["match"]
        page = library.daemon.call("list_messages", sessionId=match["sessionId"], offset=match["msgIdx"], limit=1)
        message = page["messages"][0]
        assert query in message["text"]
        assert {
            name: message[name] for name in ("msgIdx", "role", "kind", "toolName", "entryId", "timestamp")
        }.items() <= match.items()


def test_similar(library: Library) -> None:
    """A record that several sessions hold is one hit of the earliest, which says how many others there are."""
    hits = library.daemon.call("search", query="rutabaga")["results"]
    assert [(hit["sessionId"], hit["similar"]) for hit in hits] == [(APP, 1)]
    assert library.daemon.call("search", query="parsnip")["results"][0]["similar"] == 0


def test_our_own_searches_are_not_found(blank: Daemon) -> None:
    """What a session searched for is not found by the next search."""
    session = (
        PiSession(id="ours-1")
        .user("look")
        .tool("search_sessions", {"query": "oca"}, "oca found")
        .tool("bash", {"command": "sesamectl search oca"}, "oca")
    )
    blank.write("ours.jsonl", session.tool("bash", {"command": "grep oca"}, "nothing").bytes())
    blank.sync()
    answer = blank.call("search", query="oca")
    assert (answer["words"], answer["results"][0]["match"]["msgIdx"]) == (
        [{"word": "oca", "chunks": 1, "forms": 0, "headings": 0}],
        3,
    )


def test_a_summary_decides_between_equals() -> None:
    """Short words on a session count more than a message; and are found alone."""
    with Daemon() as daemon:
        for number in range(3):
            session = PiSession(id=f"equal-{number}", cwd=f"/{number}").user("the turnip question").assistant("no")
            daemon.write(f"{number}.jsonl", session.bytes())
        daemon.sync()
        assert daemon.found("turnip") != ["equal-1", "equal-0", "equal-2"]
        daemon.call("set_session_meta", sessionId="equal-1", summary="All about the turnip", tags=["scorzonera"])
        assert daemon.found("turnip")[0] == "equal-1"
        assert daemon.found("scorzonera") == ["equal-1"]
        daemon.call("set_session_meta", sessionId="equal-1", summary="", tags=[])
        assert daemon.found("scorzonera") == []


# -- freshness


def test_fresh() -> None:
    """A fresh search has every complete line that was on disk when it came, without any event."""
    with Daemon({"watch": "off", "sweepSeconds": 86_400}) as daemon:
        daemon.swept()
        session = PiSession()
        daemon.write("a.jsonl", session.bytes())
        daemon.sync()
        for number in range(20):
            daemon.append("a.jsonl", session.user(f"word{number}").last_line())
            answer = daemon.call("search", query=f"word{number}", fresh=True)
            assert answer["resultCount"] == 1
            assert answer["pending"] == {"files": 0, "bytes": 0}


def test_half_a_line_is_pending() -> None:
    """A line that is not complete is not found, and counts in the pending bytes; completed it is found."""
    with Daemon() as daemon:
        whole = PiSession().user("before").user("ulluco").bytes()
        daemon.write("a.jsonl", whole[:-20])
        answer = daemon.call("search", query="ulluco", fresh=True)
        assert answer["results"] == []
        assert answer["pending"] == {"files": 0, "bytes": len(whole.split(b"\n")[2]) + 1 - 20}
        daemon.append("a.jsonl", whole[-20:])
        answer = daemon.call("search", query="ulluco", fresh=True)
        assert answer["resultCount"] == 1
        assert answer["pending"] == {"files": 0, "bytes": 0}
