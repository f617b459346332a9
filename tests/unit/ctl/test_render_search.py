"""The screen of a search."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl.render import dates, heading, passage, search
from sesamectl.render.terminal import Terminal, columns

from .test_render import HOSTILE, assert_harmless

PLAIN = Terminal()
TERMINAL = Terminal(80, colours=False)
NOW = 1_765_792_800.0  # 2025-12-15T10:00:00Z
TEXT = "Let's restructure the nix flakes to reduce duplication: every host repeats the same inputs. " * 3


@pytest.fixture(autouse=True)
def _noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW + 3 * 3600)
    monkeypatch.setenv("HOME", "/home/me")


def hit(**more: Any) -> dict[str, Any]:
    base = {
        "sessionId": "abc12345-long", "shortId": "abc12345", "name": "Simplify Nix flake setup", "source": "claude",
        "cwd": "/home/me/code/infra", "gitBranch": "nixos", "messageCount": 42, "score": 0.82,
        "matchedSnippet": "Let's restructure the flakes", "highlights": [[22, 28]], "modified": "2025-12-15T10:00:00.000Z", "gone": False,
        "match": {"sessionId": "abc12345-long", "shortId": "abc12345", "kind": "message", "role": "user", "toolName": None, "msgIdx": 7},
    }  # fmt: skip
    return {**base, "created": "2025-11-15T10:00:00.000Z", **more}


def answer(*hits: dict[str, Any], **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "query": "nix flake",
        "resultCount": len(hits),
        "results": hits,
        "words": [],
        "corrected": {},
    }
    rest: dict[str, Any] = {
        "dropped": [],
        "weak": False,
        "filteredOut": 0,
        "pending": {"files": 0, "bytes": 0},
        "warnings": [],
    }
    return {**base, **rest, **more}


def show(one: dict[str, Any], width: int = 0, *, colours: bool = False) -> list[str]:
    """The lines of a hit."""
    lines = list(search.lines(answer(one), Terminal(width, colours=colours)))
    return lines[lines.index("") + 1 : -2 if width else None]


# -- hits


def test_a_search() -> None:
    """A hit is what the session is called, then when, by whom, where and how much, then what matches and its reference."""
    other = hit(
        name=None,
        gone=True,
        similar=2,
        subagents=1,
        missingWords=["nix", "x\x1b[1m"],
        gitBranch="main",
        matchedSnippet="",
    )
    assert list(search.lines(answer(hit(), other), PLAIN)) == [
        'Found 2 sessions matching "nix flake"',
        "",
        "abc12345  Simplify Nix flake setup",
        "  3 h ago  claude  ~/code/infra  on nixos  42 messages",
        "  abc12345:7 user  Let's restructure the flakes",
        "",
        "abc12345  (no name)",
        "  3 h ago  claude  ~/code/infra  42 messages  file gone  +2 similar  +1 subagent  missing: nix, x",
    ]


@pytest.mark.parametrize(
    ("width", "about"),
    [
        (140, "3 h ago  claude  …/for/many/clients/acme/infrastructure  on nixos  1,042 messages  +2 similar"),
        (80, "3 h ago  claude  …/infrastructure  on nixos  1,042 messages  +2 similar"),
        (68, "3 h ago  claude  …/infrastructure  1,042 messages  +2 similar"),
        (64, "3 h ago  claude  …/infrastructure  1,042 messages  +2 similar"),
        (50, "3 h ago  claude  …/infrastructure  +2 similar"),
        (40, "3 h ago  …/infrastructure  +2 similar"),
        (30, "3 h ago  …/infrastructure  …"),
    ],
)
def test_what_has_no_room(width: int, about: str) -> None:
    """First the upper directories, then the branch, the messages, the agent; never the time, and the last part of the directory."""
    long = hit(cwd="/home/me/work/for/many/clients/acme/infrastructure", similar=2, messageCount=1042)
    assert show(long, width)[1] == f"  {about}"


@pytest.mark.parametrize(
    ("cwd", "shown"),
    [
        ("/home/me", "~"),
        ("/home/meadow/x", "/home/meadow/x"),
        ("C:\\Users\\somebody\\Desktop\\health_report_of_the_year", "…\\Desktop\\health_report_of_the_year"),
        ("/" + "x" * 90, "/" + "x" * 90),
        (None, ""),
    ],
)
def test_directories(cwd: str | None, shown: str) -> None:
    """One's own are below `~`; the last part stays whole."""
    assert show(hit(cwd=cwd, gitBranch=None), 140)[1] == "  " + "  ".join(
        filter(None, ("3 h ago", "claude", shown, "42 messages"))
    )


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("letter", ["x", "名", "word "])
def test_widths(width: int, letter: str) -> None:
    """Whatever it is made of, a hit keeps to the width: two lines of heading and one that matches, or two where there are less columns."""
    text = letter * 200
    wide = hit(name=letter * 60, cwd=f"/{letter * 9}/{letter * 2}", matchedSnippet=text, highlights=[[90, 100]])
    lines = show(wide, width)
    assert "abc12345" in lines[0]
    assert lines[1].startswith("  3 h ago")
    assert all(columns(line) <= width for line in lines)
    assert len(lines) == (3 if width >= 100 else 4 if width > 20 else 5)


def test_an_answer_is_told_within_the_width() -> None:
    """Broken at words; a query with quotes is not quoted once more."""
    told = {**answer(), "query": 'a "long question" with many words', "total": 0, "excluded": ["several"] * 9}
    lines = list(search.lines(told, Terminal(40)))
    assert lines[:2] == ['No session matches a "long question"', "with many words"]
    assert all(len(line) <= 40 for line in lines)
    assert 'No session matches "x"' in list(search.lines({**told, "query": "x"}, Terminal()))
    for lines_of in (search.nothing_yet, search.no_sessions):
        assert all(len(line) <= 40 for line in lines_of({"sources": []}, Terminal(40)) if "sesamectl demo" not in line)
    assert f'No session matches "{"x" * 199}…"' in list(search.lines({**told, "query": "x" * 9999}, Terminal()))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("oddity " + "日本語" * 20, 2 * 76 - 30),
        ("see https://a.host/" + "path/" * 60, 2 * 76 - 30),
    ],
)
def test_a_quote_without_blanks_fills_its_lines(text: str, quoted: int) -> None:
    """As of Japanese, or an address: they are broken, instead of left out."""
    assert sum(columns(line.strip()) for line in show(hit(matchedSnippet=text), 80)[2:]) >= min(quoted, columns(text))


@pytest.mark.parametrize("width", [20, 80, 100, 140])
def test_a_long_reference_stands_above(width: int) -> None:
    """As one in a session with a long id, or of a tool with a long name."""
    match = {"sessionId": "x", "shortId": "agent-0123456789abcdef", "toolName": "a_tool_" * 30, "msgIdx": 12}
    lines = show(hit(match=match, matchedSnippet="word " * 90), width)
    assert lines[2].startswith("  agent-0123456789abcdef:12 a_tool")
    assert all(columns(line) <= width for line in lines[3:])
    assert len(lines) in (4, 5)


def test_what_matched_is_marked() -> None:
    """Bold and underlined, which is seen on any background, wherever the text is cut; cleaning moves the marks along."""
    snippet = "\x1b[1ma retry of the retries " + "and so on " * 30
    begin, later = snippet.index("retry"), snippet.index("retries")
    shown = show(hit(matchedSnippet=snippet, highlights=[[later, later + 7], [begin, begin + 5]]), 60, colours=True)
    assert shown[2].startswith("  abc12345:7 user  a \x1b[1;4mretry\x1b[0m of the \x1b[1;4mretries\x1b[0m and so")
    assert show(hit(matchedSnippet=snippet))[2].startswith("  abc12345:7 user  a retry of the retries and so on")


@pytest.mark.parametrize(
    ("match", "line"),
    [
        ({"msgIdx": 0}, "abc12345:0 user  text"),
        ({"toolName": "ba\x07sh", "role": "assistant"}, "abc12345:7 bash  text"),
        ({"undone": True}, "abc12345:7 user (undone)  text"),
        ({"sessionId": "child-long", "shortId": "child"}, "child:7 user of a subagent  text"),
        ({"kind": "heading", "field": "cwd", "msgIdx": None}, "directory  text"),
        ({"kind": "heading", "field": "of a later version", "msgIdx": None}, "heading  text"),
        ({"kind": "heading", "field": "title", "msgIdx": None, "sessionId": "child-long", "shortId": "child"},
         "child title of a subagent  text"),
    ],
)  # fmt: skip
def test_where_it_matches(match: dict[str, Any], line: str) -> None:
    """Each hit says where, piped or not, and what `show` takes to read on there: in a subagent its id, with its number."""
    one = hit(matchedSnippet="text", highlights=[])
    one["match"] = {**one["match"], **match}
    assert show(one)[2] == f"  {line}"
    assert show(one, 80)[2] == f"  {line}"


def test_a_tool_is_named_once() -> None:
    """In the reference; what it was called with is what the line has room for."""
    one = hit(matchedSnippet="tool: edit path: a tool", highlights=[[6, 10], [19, 23]])
    one["match"] = {**one["match"], "toolName": "edit"}
    assert show(one, 80, colours=True)[2] == "  abc12345:7 edit  path: a \x1b[1;4mtool\x1b[0m"
    assert (
        show({**one, "match": {**one["match"], "toolName": "write"}})[2]
        == "  abc12345:7 write  tool: edit path: a tool"
    )


def test_a_name_is_not_repeated() -> None:
    """As where nothing was asked for, and sessions show their first prompt, by which most are called."""
    assert len(show(hit(matchedSnippet="Simplify Nix flake setup", highlights=[]))) == 2
    assert len(show(hit(matchedSnippet="Simplify Nix flake setup", highlights=[[9, 12]]))) == 3
    assert len(show(hit(matchedSnippet="Simplify Nix flake setup, please", highlights=[]))) == 3


def test_tags_are_shown() -> None:
    """A person gave them so that the session is recognised."""
    assert show(hit(tags=["nix", "x\x1b[1my"]))[1].endswith("42 messages  tags: nix, xy")


def test_how_to_read_on() -> None:
    """On a terminal a command stands below, with what the first hit has; an older daemon gives whole ids."""
    assert list(search.lines(answer(hit(), hit()), TERMINAL))[-1] == "To read on: sesamectl show abc12345:7"
    older = hit(shortId=None, match={"sessionId": "sub", "msgIdx": 3})
    assert list(search.lines(answer(older), TERMINAL))[-1] == "To read on: sesamectl show sub:3"
    assert not [line for line in search.lines(answer(hit()), PLAIN) if line.startswith("To read on")]


def test_a_subagent_whose_parent_is_not_indexed() -> None:
    """Its parent's id is all that says what it worked for."""
    orphan = hit(orphan=True, subagent=True, parentSessionId="019e62c4\x1b[1m-8608", gitBranch=None)
    assert show(orphan)[1].endswith("42 messages  subagent of 019e62c4…, which is not indexed")
    assert show({**orphan, "orphan": False})[1].endswith("42 messages  subagent")


# -- the answer


@pytest.mark.parametrize(
    ("query", "hits", "line"),
    [
        ("a", 1, 'Found 1 session matching "a"'),
        ("a", 0, 'No session matches "a"'),
        ("*", 1, "Found 1 session, newest first"),
        ("", 0, "No sessions"),
    ],
)
def test_the_headline(query: str, hits: int, line: str) -> None:
    """The first line says how many there are, and of what."""
    assert next(iter(search.lines(answer(*[hit()] * hits, query=query), PLAIN))) == line


@pytest.mark.parametrize(
    ("hits", "more", "lines"),
    [
        (2, {"total": 301, "totalExact": True, "nextOffset": 2}, ["Found 2 of 301 sessions matching", "299 more: --offset 2"]),
        (2, {"total": 40, "totalExact": False, "nextOffset": 2}, ["Found 2 of at least 40 sessions matching", "More: --offset 2"]),
        (0, {"total": 301, "totalExact": True, "nextOffset": None}, ['Found 301 sessions matching "a", but none in this range']),
        (0, {"total": 0, "totalExact": True, "nextOffset": None}, ['No session matches "a"']),
    ],
)  # fmt: skip
def test_how_many_there_are(hits: int, more: dict[str, Any], lines: list[str]) -> None:
    """A page says of how many it is, and how to go on; an offset beyond the last one is no answer without hits."""
    shown = list(search.lines(answer(*[hit()] * hits, query="a", **more), PLAIN))
    assert shown[0].startswith(lines[0])
    assert shown[-1] == lines[-1] or len(lines) == len(shown) == 1


@pytest.mark.parametrize(
    ("folded", "what"),
    [
        ({"similar": 4, "subagents": 0}, "Similar sessions"),
        ({"similar": 0, "subagents": 1}, "Subagents"),
        ({"similar": 1, "subagents": 1}, "Similar sessions and subagents"),
    ],
)
def test_what_is_folded_can_be_opened(folded: dict[str, int], what: str) -> None:
    """The answer says how; an older daemon could not."""
    expected = f"{what} of a hit: --similar-to abc12345"
    assert list(search.lines(answer(hit(), hit(**folded), total=2), PLAIN))[-1] == expected
    assert expected not in search.lines(answer(hit(**folded)), PLAIN)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"corrected": {"flaek": "flake"}}, "Searched for flake instead of flaek."),
        ({"dropped": ["the", "a"]}, "Ignored: the, a."),
        ({"excluded": ["n", "limit"]}, "Excluded: n, limit."),
        ({"words": [{"word": "nix", "chunks": 3}, {"word": "zzz", "chunks": 0}]}, "Not in the index: zzz."),
        (
            {
                "words": [
                    {"word": "nix", "chunks": 0, "forms": 2, "headings": 0},
                    {"word": "flake", "chunks": 0, "forms": 0, "headings": 1},
                    {"word": "zzz", "chunks": 0, "forms": 0, "headings": 0},
                ]
            },
            "Not in the index: zzz.",
        ),
        ({"filteredOut": 3}, "Without the filters: 3 sessions."),
        ({"weak": True}, "Weak match: even the best hit is hardly about this."),
        ({"pending": {"files": 2, "bytes": 2048}}, "Not yet searchable: 2 files, 2.0 KiB."),
        ({"warnings": ["no\x1b[1m events"]}, "Warning: no events"),
    ],
)
def test_how_far_it_can_be_trusted(more: dict[str, Any], line: str) -> None:
    """What limits the answer is said before the hits."""
    assert list(search.lines(answer(hit(), **more), PLAIN))[1:3] == [line, ""]


def test_a_pasted_page_does_not_fill_the_screen() -> None:
    """Of many words the first are told, and how many more there are."""
    words = [f"w{number}" for number in range(1500)]
    told = list(search.lines(answer(hit(missingWords=words), dropped=words), PLAIN))
    first = ", ".join(words[:20])
    assert told[1] == f"Ignored: {first} and 1,480 more."
    assert told[4].endswith(f"missing: {first} and 1,480 more")


def test_what_many_words_lack_leaves_room() -> None:
    """For agent and directory, by which a person knows the session."""
    lacking = hit(missingWords=["Traceback", "recent", "RuntimeError", "config.toml"])
    assert show(lacking, 80)[1] == "  3 h ago  claude  …/infra  on nixos  42 messages  missing: Traceback, recen…"
    assert show(lacking, 140)[1].endswith("  missing: Traceback, recent, RuntimeError, config.toml")


def test_a_slip_is_not_a_weak_match_as_well() -> None:
    """If the best hit has all that was searched instead, the slip is all that is to be said; if it has not, both are."""
    corrected = {"weak": True, "corrected": {"flaek": "flake"}}
    told = list(search.lines(answer(hit(), **corrected), PLAIN))
    assert told[1:3] == ["Searched for flake instead of flaek.", ""]
    lacking = list(search.lines(answer(hit(missingWords=["nix"]), **corrected), PLAIN))
    assert lacking[1].startswith("Weak match: ")
    assert lacking[2] == told[1]


def test_a_corrected_word_is_not_missing() -> None:
    """A word that was corrected is not told twice."""
    more = {"words": [{"word": "flaek", "chunks": 0}], "corrected": {"flaek": "flake"}}
    assert len(list(search.lines(answer(**more), PLAIN))) == 2


@pytest.mark.fault(104)
@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("terminal", [PLAIN, TERMINAL])
def test_nothing_hostile_is_printed(text: str, terminal: Terminal) -> None:
    """Nothing that a terminal obeys, reorders or hides is printed, in whatever field it stands."""
    names = (
        "sessionId",
        "shortId",
        "name",
        "matchedSnippet",
        "created",
        "modified",
        "source",
        "cwd",
        "gitBranch",
        "parentSessionId",
    )
    fields: dict[str, Any] = {
        **dict.fromkeys(names, f"{text}n"),
        "highlights": [[0, 1]],
        "missingWords": [text],
        "similar": 1,
    }
    match = {"sessionId": text, "shortId": text, "role": text, "toolName": text, "msgIdx": 1}
    more: dict[str, Any] = {
        "query": text,
        "corrected": {text: text},
        "dropped": [text],
        "excluded": [text],
        "warnings": [text],
        "total": 2,
    }
    more["words"] = [{"word": text, "chunks": 0}]
    for line in search.lines(
        answer(hit(**fields, match=match), hit(**fields, orphan=True, subagent=True), **more), terminal
    ):
        assert_harmless(line)


# -- times


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (3600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 d ago"),
        (604_799, "6 d ago"),
        (604_800, "2025-12-15 10:00"),
        (-2, "2025-12-15 10:00"),
    ],
)
def test_how_long_ago(seconds: int, shown: str) -> None:
    """For a week; then the date, and so for what is still to come."""
    assert dates.ago("2025-12-15T10:00:00.000Z", NOW + seconds) == shown


@given(st.text(max_size=30) | st.datetimes().map(lambda moment: f"{moment.isoformat(timespec='milliseconds')}Z"))
def test_any_time_is_shown(text: str) -> None:
    """What is no time is as it is."""
    assert isinstance(dates.ago(text, NOW), str)
    assert dates.minute("yesterday") == "yesterday"


# -- passages


PIECES = st.lists(st.sampled_from(["alpha", "beta", "a", "日本語", "é", "x" * 30, "…"]), max_size=40)


@given(PIECES, st.lists(st.integers(0, 39), max_size=5), st.integers(8, 120))
def test_a_passage(words: list[str], matched: list[int], width: int) -> None:
    """It keeps to its columns, is a part of the text, and its ranges are those of the text."""
    text = " ".join(words)
    places = [sum(len(word) + 1 for word in words[:at]) for at in range(len(words))]
    ranges = [(places[at], places[at] + len(words[at])) for at in sorted(set(matched)) if at < len(words)]
    shown, found = passage.cut(text, ranges, width)
    assert columns(shown) <= width
    assert shown.removeprefix("… ").removesuffix(" …") in text
    assert {shown[a:b] for a, b in found} <= {text[a:b] for a, b in ranges}
    if columns(text) <= width:
        assert (shown, found) == (text, ranges)


@given(
    PIECES,
    st.integers(20, 160),
    st.sampled_from(["", "user", "a_tool_with_a_long_name"]),
    st.lists(st.integers(0, 300), max_size=4),
)
def test_a_quote(words: list[str], width: int, place: str, marks: list[int]) -> None:
    """It ends, keeps to the width, and says all that one line or two have room for."""
    text = " ".join(words)
    ranges = [(at, at + 2) for at in sorted(set(marks)) if at + 2 <= len(text)]
    lines = list(search.quote(f"abc12345:7 {place}", text, ranges, Terminal(width)))
    assert all(columns(line) <= max(width, len(place) + 13) for line in lines)
    assert len(lines) <= (2 if width >= 100 else 3)
    if columns(text) <= width // 2 - 4:
        assert text.split() == " ".join(lines).removeprefix(f"  abc12345:7 {place}").split()


def test_a_passage_is_where_the_words_are_densest() -> None:
    """Different ones count; around them there is as much as there is room for, in whole words."""
    text = "alpha alpha alpha " + "filler " * 20 + "alpha beta " + "filler " * 20
    ranges = [(at, at + 5) for at in range(len(text)) if text.startswith("alpha", at)]
    begin = text.index("beta")
    shown, found = passage.cut(text.strip(), [*ranges, (begin, begin + 4)], 50)
    assert shown == "… filler filler alpha beta filler filler …"
    assert [shown[a:b] for a, b in found] == ["alpha", "beta"]


@given(st.text(alphabet="ab/~\\日", max_size=40), st.integers(10, 100))
def test_headings_fit(path: str, width: int) -> None:
    """Whatever a directory is called."""
    assert columns(heading.about(hit(cwd=path), width)) <= width
