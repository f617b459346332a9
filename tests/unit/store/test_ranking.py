"""Rules of ranking, each on an index of a few sessions."""

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from sesamed.store.search import scoring
from sesamed.store.search.scoring import is_weak
from sesamed.store.search.terms import Pattern, Term, Terms, Word
from tests.support.sessions import PiSession
from tests.support.tiny import Tiny, session, tiny
from tests.unit.store.test_terms import TEXTS

OTHER = "a quite different matter that goes on for a while"


def test_what_was_said_is_above_what_a_tool_was_told_or_said() -> None:
    """All else equal: user, assistant, call, result."""
    said = session(0, cwd="/a").user("xyzzy")
    answered = session(1, cwd="/b").user(OTHER).assistant("xyzzy")
    called = session(2, cwd="/c").user(OTHER).tool("bash", {"command": "xyzzy"}, "nothing")
    resulted = session(3, cwd="/d").user(OTHER).tool("bash", {"command": "nothing"}, "xyzzy")
    with tiny(resulted, called, answered, said) as index:
        assert index.found("xyzzy") == ["s0", "s1", "s2", "s3"]


def test_more_of_the_question_is_above_less() -> None:
    """Even when the words of it are in a tool call: that is not all else equal."""
    some = session(0, cwd="/a").user(f"{OTHER} with plugh in it")
    more = session(1, cwd="/b").user(OTHER).tool("bash", {"command": "plugh xyzzy thud"}, "done")
    with tiny(some, more) as index:
        assert index.found("plugh xyzzy thud") == ["s1", "s0"]


def test_neighbours_are_above_words_that_stand_apart() -> None:
    """Though nobody has put them in quotes; what is between them in the question, too, parts them."""
    apart = session(0, cwd="/a").user(f"xyzzy {OTHER} plugh")
    together = session(1, cwd="/b").user(f"{OTHER} xyzzy plugh")
    with tiny(together, apart, *(session(n, cwd=f"/{n}").user(f"{OTHER} {n}") for n in range(2, 6))) as index:
        assert index.found("xyzzy plugh") == ["s1", "s0"]
        scores = [hit.score for hit in index.ask("xyzzy in plugh").hits]
        assert scores[0] == pytest.approx(scores[1], rel=0.05)


def test_a_word_in_two_cases_is_one_word_and_a_phrase() -> None:
    """Whatever stands around it: it counts once, and who says it twice in a row is first."""
    once = session(0, cwd="/a").user(f"{OTHER} object")
    twice = session(1, cwd="/b").user(f"{OTHER} [object Object] is shown")
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n} shown") for n in range(2, 9)]
    with tiny(once, twice, *others) as index:
        for question in ("[object Object]", "object, Object", "object Object"):
            assert index.found(question) == ["s1", "s0"]
            (term,), (pair,) = index.ask(question).terms.terms, index.ask(question).terms.pairs
            assert (term.chunks, pair.chunks) == (2, 1)


@pytest.mark.parametrize("word", ["数据库", "自動運転車", "데이터베이스"])
def test_a_word_without_spaces_weighs_what_one_word_does(word: str) -> None:
    """Though it is searched as a whole, as a phrase of pairs, and as each pair: whoever says the two others says more of the question."""
    one = session(0, cwd="/a").user(f"{OTHER}, {word} and so on")
    two = session(1, cwd="/b").user(f"{OTHER}, plugh and xyzzy")
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n}") for n in range(2, 6)]
    with tiny(one, two, *others) as index:
        assert index.found(f"xyzzy {word} plugh") == ["s1", "s0"]


def test_a_sentence_without_spaces_is_several_words() -> None:
    """Where it is nowhere as a whole."""
    most = session(0, cwd="/a").user(f"{OTHER} 修复登录页面")
    one = session(1, cwd="/b").user(f"{OTHER} xyzzy")
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n} 错误") for n in range(2, 6)]
    with tiny(most, one, *others) as index:
        patterns = index.ask("修复登录页面的错误 xyzzy").terms.terms[0].patterns
        assert sum(pattern.weight for pattern in patterns if pattern.chunks) == pytest.approx(5)


def test_what_stands_in_words_without_spaces_is_no_rarity() -> None:
    """A word that is in every text, within others, says nothing of an answer; the one that is missing does."""
    sessions = [session(n, cwd=f"/{n}").user(f"{OTHER} 我们的数据库很慢 {n}") for n in range(8)]
    with tiny(*sessions, session(8, cwd="/8").user("the plugh")) as index:
        terms = index.ask("数据库 plugh").terms
        assert terms.weigh(terms.terms[0]) < terms.weigh(terms.terms[1])


def test_a_title_with_the_words_apart_is_below_what_was_said_side_by_side() -> None:
    """A title with all words is above what was said; here it has not all that was asked."""
    said = session(0, cwd="/a").user(f"{OTHER} xyzzy plugh").assistant("the xyzzy plugh again")
    called = session(1, cwd="/b").user(f"{OTHER} else").name("Plugh of the great xyzzy")
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n} plugh") for n in range(2, 9)]
    with tiny(called, said, *others) as index:
        assert index.found("xyzzy plugh")[:2] == ["s0", "s1"]


def test_a_name_decides_between_equals() -> None:
    """A title counts more than a message that says the same."""
    sessions = [session(number, cwd=f"/{number}").user(f"{OTHER} xyzzy {number}") for number in range(3)]
    sessions[1].name("The xyzzy matter")
    with tiny(*sessions) as index:
        assert index.found("xyzzy")[0] == "s1"


def test_a_name_alone_is_found() -> None:
    """Though none of its texts has the word."""
    with tiny(session(0).user(OTHER).name("Frobnication"), session(1).user("else")) as index:
        (hit,) = index.ask("frobnication").hits
        assert (hit.session_id, hit.matched_words) == ("s0", ["frobnication"])
        assert hit.match is not None
        assert (hit.match.kind, hit.match.field, hit.match.msg_idx, hit.match.session_id) == (
            "heading",
            "title",
            None,
            "s0",
        )
        assert [hit.matched_snippet[slice(*one)] for one in hit.highlights] == ["Frobnication"]


@pytest.mark.parametrize(
    ("field", "word"),
    [("title", "xyzzy"), ("summary", "plugh"), ("tags", "thud"), ("cwd", "nimbus"), ("gitBranch", "feature")],
)
def test_a_heading_says_which_part_of_it_matches(field: str, word: str) -> None:
    """The one with the most words; its text is the snippet."""
    with tiny(session(0, cwd="/home/nimbus").user(OTHER).name("The xyzzy")) as index:
        index.entitle("s0", "about plugh", "summary")
        index.entitle("s0", '["one", "thud"]', "tags")
        index.entitle("s0", "feature/one", "git_branch")
        (hit,) = index.ask(word).hits
        assert hit.match is not None
        assert (hit.match.kind, hit.match.field) == ("heading", field)
        assert [hit.matched_snippet[slice(*one)] for one in hit.highlights] == [word]
        assert (hit.matched_words, hit.missing_words) == ([word], [])


@pytest.mark.parametrize("question", ["xyzzy", "xyzzy plugh", "xyzzy plugh nowhere", "xyzzy orchard"])
def test_recall_words_count_as_a_summary_does(question: str) -> None:
    """As often, and with the same share of the question, whatever else is said."""
    found = []
    for column, value in (("summary", "xyzzy and plugh"), ("recall_words", '["xyzzy and", "plugh"]')):
        with tiny(session(0, cwd="/a").user(OTHER), session(1, cwd="/b").user("the orchard and a xyzzy")) as index:
            index.entitle("s0", value, column)
            answered = index.ask(question)
            found.append([(hit.session_id, hit.score, hit.matched_words) for hit in answered.hits])
            assert answered.terms.corrected == {}
    assert found[0] == found[1]
    assert "s0" in [name for name, *_ in found[0]]


def test_the_best_of_poor_texts_is_below_what_has_more_of_the_question_in_its_recall_words() -> None:
    """One that happens to say a word is the best of what was said; that is no reason to be the first."""
    long = session(1, cwd="/b")
    for number in range(12):
        long.user(f"thud {number}").assistant(f"nimbus, after thud {number}")
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n}") for n in range(2, 12)]
    with tiny(session(0, cwd="/a").user(OTHER), long, *others) as index:
        index.entitle("s0", '["xyzzy and", "plugh"]', "recall_words")
        index.entitle("s2", '["jumble", "gnat"]', "recall_words")
        assert index.found("xyzzy plugh thud nimbus jumble gnat")[:2] == ["s0", "s2"]
        assert index.found("thud nimbus")[0] == "s1"


def test_without_titles_the_order_is_that_of_the_texts() -> None:
    """However little of the question is in the best of them."""
    sessions = [session(n, cwd=f"/{n}").user(" ".join(["thud", "plugh", "xyzzy"][: n + 1])) for n in range(3)]
    with tiny(*sessions, session(3, cwd="/3").user(OTHER)) as index:
        before = index.found("thud plugh xyzzy nowhere nothing")
        index.entitle("s3", "nothing")
        assert before == ["s2", "s1", "s0"]
        assert [name for name in index.found("thud plugh xyzzy nowhere nothing") if name != "s3"] == before


def test_a_guessed_word_weighs_what_is_found_for_it() -> None:
    """An unknown word is the rarest of all; what it is taken for is in many sessions, and says little."""
    others = [session(n, cwd=f"/{n}").user(f"the orchestrator {name}") for n, name in enumerate("abcdef", 4)]
    paid = [session(n, cwd=f"/{n}").user(f"{OTHER} credit {n}") for n in (2, 3)]
    with tiny(session(0, cwd="/0").user(OTHER), session(1, cwd="/1").user(OTHER), *paid, *others) as index:
        index.entitle("s0", "credit", "summary")
        index.entitle("s1", "orchestrator", "summary")
        assert index.ask("orchestratr credit").terms.corrected == {"orchestratr": "orchestrator"}
        found = [name for name in index.found("orchestratr credit") if name in ("s0", "s1")]
        assert found == ["s0", "s1"]


@pytest.mark.parametrize("question", [".js extension exports package.json", "package.json"])
def test_parts_of_words_are_below_words(question: str) -> None:
    """A session that says `packages` over and over has no word of the query; one that writes the file has."""
    parts = [session(n, cwd=f"/{n}").user("packages").assistant("a package of packages") for n in range(3)]
    wrote = session(3, cwd="/d").user(OTHER).tool("write", {"path": "package.json", "content": "an extension"}, "done")
    with tiny(*parts, wrote) as index:
        hits = index.ask(question).hits
        assert hits[0].session_id == "s3"
        assert "package.json" in hits[0].matched_words
        assert [hit.matched_words for hit in hits[1:]] == [[], [], []]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert index.found(question, limit=1, offset=0) == ["s3"]


@pytest.mark.parametrize("word", ["simplify", "simplified", "simplifying", "simplification", "Simplifications"])
def test_verbs_in_ify_and_their_nouns(word: str) -> None:
    """Stemming leaves them apart; neither is a slip of the other."""
    verbs = session(0, cwd="/a").user("simplify this, please")
    nouns = session(1, cwd="/b").user("the simplification of that")
    with tiny(verbs, nouns, session(2, cwd="/c").user("a simple notification")) as index:
        answered = index.ask(word)
        assert sorted(hit.session_id for hit in answered.hits) == ["s0", "s1"]
        assert [hit.missing_words for hit in answered.hits] == [[], []]
        assert all(hit.highlights for hit in answered.hits)
        assert answered.terms.corrected == {}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("extnsion", "extension"),
        ("orchestratr", "orchestrator"),
        ("deploymnt", "deployment"),
        ("dokcer", "docker"),
        ("Migraton", "migration"),
    ],
)
def test_slips_are_corrected_to_whole_words(typed: str, meant: str) -> None:
    """Not to their stems, nor to words that were cut off."""
    texts = [
        *["the extension of an orchestrator, its deployment with docker, and a migration"] * 3,
        *["extensio", "orchestrato", "orchestrat", "deploymen", "migratio"] * 2,
    ]
    with tiny(*(session(number, cwd=f"/{number}").user(text) for number, text in enumerate(texts))) as index:
        answered = index.ask(typed)
        assert answered.terms.corrected == {typed: meant}
        assert meant in answered.hits[0].matched_snippet


def test_where_words_are() -> None:
    """A word is nowhere only if no text, no longer word and no heading has it."""
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n}") for n in range(2)]
    said = session(2, cwd="/c").user("健康診断の結果を見る parseHTTPDate simplification")
    named = session(3, cwd="/home/me/NimbusProject").user("hello").name("設定ファイルの整理 viaFrobnicator")
    with tiny(*others, said, named) as index:
        index.entitle("s3", '["zymurgy"]', "tags")
        answered = index.ask("健康診断 http simplify ファイル frobnicator zymurgy nimbus xyzzy")
        counts = {one.word: (one.chunks, one.forms, one.headings) for one in answered.words}
        assert counts == {
            "健康診断": (0, 1, 0),
            "http": (1, 0, 0),
            "simplify": (0, 1, 0),
            "ファイル": (0, 0, 1),
            "frobnicator": (0, 0, 1),
            "zymurgy": (0, 0, 1),
            "nimbus": (0, 0, 1),
            "xyzzy": (0, 0, 0),
        }
        assert answered.terms.corrected == {}
        found = {hit.session_id: hit.matched_words for hit in answered.hits}
        assert found["s3"] == ["ファイル", "frobnicator", "zymurgy", "nimbus"]
        assert index.found("ファイル") == ["s3"]
        assert index.found("frobnicator") == ["s3"]


@pytest.mark.parametrize(
    ("word", "asked"),
    [("os.User", "os.User table"), ("colys", "colys table"), ("atelist", "atelist table"), ("imbus", "imbus table")],
)
def test_a_word_within_one_that_is_shown_is_not_nowhere(word: str, asked: str) -> None:
    """Nothing is searched for it, but the answer would contradict itself."""
    said = session(0, cwd="/home/nimbus").user("a table of os.UserHomeDir for colyseus").name("The StateListener")
    with tiny(said, session(1, cwd="/b").user(OTHER)) as index:
        answered = index.ask(f"{asked} xyzzy")
        forms = {one.word: one.forms for one in answered.words}
        assert forms == {word: 1, "table": 0, "xyzzy": 0}
        assert answered.hits[0].missing_words == [word, "xyzzy"]


@pytest.mark.parametrize("word", ["%", "100%", "a_b", "\\", "'"])
def test_marks_of_like_are_text(word: str) -> None:
    """They stand for themselves."""
    with tiny(session(0).user("hello").name("漢字 abc")) as index:
        assert index.found(word) == []


BILLING = "Quarterly billing migration plan"


@pytest.mark.parametrize("column", ["title", "summary", "description", "tags"])
def test_what_a_session_is_called_finds_it(column: str) -> None:
    """Above those that say some of the words in passing, however little it says them itself."""
    passing = [session(n, cwd=f"/{n}").user(f"billing migration {'again ' * n}").assistant("plan it") for n in range(7)]
    with tiny(*passing, session(7).user(OTHER)) as index:
        index.entitle("s7", json.dumps([BILLING]) if column == "tags" else BILLING, column)
        for question in (BILLING, "migration plan quarterly", "quarterly"):
            assert index.found(question)[0] == "s7"


def test_one_word_that_is_a_title() -> None:
    """Above those that say it all the time, also when only a tool says it there."""
    often = [session(n, cwd=f"/{n}").user("xyzzy").assistant("xyzzy xyzzy").user("more xyzzy") for n in range(3)]
    named = session(3).user(OTHER).name("xyzzy")
    done = session(4, cwd="/d").user("what a long day").tool("bash", {"command": "echo xyzzy"}, "xyzzy").name("xyzzy")
    with tiny(*often, named, done) as index:
        assert set(index.found("xyzzy")[:2]) == {"s3", "s4"}


def test_of_many_titles_those_with_most_of_the_question_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each of its words is in too many to show all of them."""
    monkeypatch.setattr(scoring, "MANY_NAMED", 2)
    named = [session(n, cwd=f"/{n}").user(f"{OTHER} {n}").name(f"{word} plan") for n, word in enumerate("abcdefg")]
    with tiny(*named, session(7).user(f"{OTHER} 7").name("a plan that has xyzzy")) as index:
        first = index.ask("plan xyzzy", limit=1)
        assert ([hit.session_id for hit in first.hits], first.total_exact) == (["s7"], False)
        assert sorted(index.found("plan xyzzy")) == [f"s{n}" for n in range(8)]


def test_a_word_of_a_title_is_not_corrected() -> None:
    """Though no text holds it, and some hold one that is nearly the same."""
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} zebra {n}") for n in range(2)]
    with tiny(*others, session(2).user("hello").name("Zebro")) as index:
        answered = index.ask("zebro")
        assert answered.terms.corrected == {}
        assert [hit.session_id for hit in answered.hits] == ["s2"]


def test_a_compaction_summary_is_no_title() -> None:
    """It repeats what was said before, and counts like any message."""
    summarised = session(0, cwd="/a").user(OTHER).compaction("xyzzy")
    asked = session(1, cwd="/b").user("xyzzy")
    with tiny(summarised, asked) as index:
        assert index.found("xyzzy") == ["s1", "s0"]


def test_the_session_counts_as_a_whole() -> None:
    """Of two sessions with an equal best message, the one that is about it all along is first."""
    once = session(0, cwd="/a").user("about xyzzy now").assistant("yes").user("well then").assistant("so be it")
    often = session(1, cwd="/b").user("about xyzzy now").assistant("xyzzy it is").user("more xyzzy").assistant("xyzzy")
    with tiny(once, often) as index:
        assert index.found("xyzzy") == ["s1", "s0"]


def test_recency_breaks_ties_only() -> None:
    """Unless it is asked for."""
    old = session(0, cwd="/a", start="2026-01-01T00:00:00.000Z").user("xyzzy plugh")
    new = session(1, cwd="/b", start="2026-02-01T00:00:00.000Z").user("xyzzy plugh")
    newest = session(2, cwd="/c", start="2026-03-01T00:00:00.000Z").user(f"{OTHER} xyzzy {OTHER}")
    with tiny(old, new, newest) as index:
        assert index.found("xyzzy plugh") == ["s1", "s0", "s2"]
        assert index.found("xyzzy plugh", recent=True) == ["s2", "s1", "s0"]


@pytest.fixture(scope="module")
def words() -> Iterator[Tiny]:
    with tiny(
        session(0, cwd="/a").user("call parseHTTPDate from streamSimple please"),
        session(1, cwd="/b").user("我们用React组件来做設定檔案"),
        session(2, cwd="/c").user("configure the configuration in package.json"),
        session(3, cwd="/d").user("the red fox jumped over"),
        session(4, cwd="/e").user("the fox that was red"),
        session(5, cwd="/f").user("the optimistic optimist").assistant("optimistic locking"),
    ) as index:
        yield index


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("stream simple", {"s0"}),
        ("simple", {"s0"}),
        ("http", {"s0"}),
        ("parseHTTPDate", {"s0"}),
        ("設定", {"s1"}),
        ("檔", {"s1"}),
        ("react", {"s1"}),
        ('"設定檔"', {"s1"}),
        ('"檔設"', set()),
        ("package.json", {"s2"}),
        ("json", {"s2"}),
        ("conf*", {"s2"}),
        ('"red fox"', {"s3"}),
        ("fox -jumped", {"s4"}),
        ('fox -"red fox"', {"s4"}),
        ('-"red fox" fox', {"s4"}),
        ("fox -ju*", {"s4"}),
        ("optmistic", {"s5"}),
        ("optimsitic", {"s5"}),
        ("the", {"s2", "s3", "s4", "s5"}),
    ],
)
def test_words_within_words_and_marks(words: Tiny, text: str, found: set[str]) -> None:
    """Parts of identifiers, scripts without spaces, phrases, prefixes, exclusions and slips."""
    assert set(words.found(text)) == found


def test_a_slip_is_corrected_and_said(words: Tiny) -> None:
    """Only what the index does not know."""
    answered = words.ask("optmistic fox")
    assert answered.terms.corrected == {"optmistic": "optimistic"}
    assert [(count.word, count.chunks) for count in answered.words] == [("optmistic", 0), ("fox", 2)]
    assert words.ask("optimistic fox").terms.corrected == {}
    assert words.ask('"optmistic"').terms.corrected == {}
    assert words.ask("optmistic*").terms.corrected == {}
    hit = next(hit for hit in answered.hits if hit.session_id == "s5")
    assert (hit.matched_words, hit.missing_words) == (["optmistic"], ["fox"])
    assert hit.matched_snippet[slice(*hit.highlights[0])] == "optimistic"


def test_a_slip_in_a_word_within_a_word_is_corrected() -> None:
    """The word as it is written stands nowhere by itself."""
    with tiny(session(0).user("parseOptimistic"), session(1).user("an idle optimisticLock")) as index:
        answered = index.ask("optmistic")
        assert answered.terms.corrected == {"optmistic": "optimistic"}
        assert sorted(hit.session_id for hit in answered.hits) == ["s0", "s1"]


def test_stop_words_are_left_out_when_there_are_others(words: Tiny) -> None:
    """And named."""
    answered = words.ask("the fox and the")
    assert (answered.terms.dropped, [count.word for count in answered.words]) == (("the", "and"), ["fox"])
    assert words.ask("the").terms.dropped == ()
    assert words.ask('"the" fox').terms.dropped == ()


def test_highlights_are_in_the_identifier(words: Tiny) -> None:
    """The part that matched."""
    hit = words.ask("simple").hits[0]
    assert [hit.matched_snippet[first:last] for first, last in hit.highlights] == ["Simple"]
    hit = words.ask("設定").hits[0]
    assert [hit.matched_snippet[first:last] for first, last in hit.highlights] == ["設定"]


@pytest.mark.fault(90)
@settings(suppress_health_check=list(HealthCheck))
@given(TEXTS)
def test_any_text_is_a_question_that_sqlite_accepts(words: Tiny, text: str) -> None:
    """Whatever characters it has; and each hit says of each word whether it has it."""
    answered = words.ask(text)
    asked = [count.word for count in answered.words]
    for hit in answered.hits:
        assert sorted(hit.matched_words + hit.missing_words) == sorted(asked)
        assert 0 <= hit.score <= 1


def test_an_answer_that_is_hardly_about_the_question_is_weak(words: Tiny) -> None:
    """One common word of four is not the session that was meant."""
    assert words.ask("kubernetes ingress certificate fox").weak
    assert not words.ask("red fox").weak
    assert not words.ask("red fox", offset=1).weak
    assert not words.ask("nothing of it at all").weak


LONG = "You are on patrol. Look at the queue, see what is stuck, and report what you find."


def test_sessions_that_begin_alike_are_one_hit() -> None:
    """The best of them stands for all; each can still be asked for."""
    patrols = [session(number).user(LONG).assistant(f"nothing {'stuck ' * number}") for number in range(4)]
    elsewhere = session(4, cwd="/elsewhere").user(LONG)
    with tiny(*patrols, elsewhere) as index:
        hits = {hit.session_id: hit.similar for hit in index.ask("stuck").hits}
        assert hits == {"s3": 3, "s4": 0}
        assert index.found("stuck", exclude=("s3",))[:1] == ["s2"]


def test_short_beginnings_are_not_enough() -> None:
    """Many sessions begin with a greeting, and go on otherwise."""
    greeted = [session(number).user("hello").user(f"xyzzy {number} {OTHER}") for number in range(2)]
    curt = [session(number).user("hello").user("xyzzy") for number in (2, 3)]
    with tiny(*greeted, *curt) as index:
        assert sorted(index.found("xyzzy")) == ["s0", "s1", "s2", "s3"]


def test_a_fork_is_found_by_a_title_of_its_own() -> None:
    """Its copies count for the session that they come from; with the same title, or with none, it is no hit beside that one."""
    first = session(0, cwd="/a").user("the staging of a plugh").name("Deploying")
    fork = first.fork(id="fork")
    with tiny(first, fork, session(2, cwd="/c").user("a flamingo")) as index:
        assert index.found("staging deploying") == ["s0"]
        index.entitle("fork", "Flamingo staging")
        found = index.ask("flamingo staging").hits
        assert [hit.session_id for hit in found] == ["fork", "s2"]
        assert found[0].match is not None
        assert (found[0].match.kind, found[0].match.field, found[0].similar) == ("heading", "title", 1)
        index.entitle("s0", "Flamingo staging")
        assert [hit.session_id for hit in index.ask("flamingo staging").hits] == ["s0", "s2"]


def test_a_fork_that_went_on_is_similar() -> None:
    """What it has of its own is found in it."""
    first = PiSession(id="first").user(LONG).assistant("the plugh")
    fork = first.fork(id="fork").user("and the xyzzy")
    with tiny(first, fork) as index:
        assert [(hit.session_id, hit.similar) for hit in index.ask("xyzzy").hits] == [("fork", 0)]
        assert [(hit.session_id, hit.similar) for hit in index.ask("patrol").hits] == [("first", 1)]
        assert [(hit.session_id, hit.similar) for hit in index.ask("xyzzy plugh").hits] == [("fork", 1)]


@pytest.mark.parametrize("text", ["stuck", "patrol", "nothing stuck", "patrol xyzzy"])
def test_pages_fit_together(text: str) -> None:
    """Also where what is only done comes after what was said."""
    said = [session(number, cwd=f"/{number}").user(f"{LONG} {number}").assistant("stuck") for number in range(3)]
    done = [session(n, cwd=f"/{n}").user(OTHER).tool("bash", {"command": f"patrol stuck {n}"}, "") for n in range(3, 6)]
    with tiny(*said, *done, session(6).user("xyzzy")) as index:
        found = index.found(text)
        assert [one for page in range(4) for one in index.found(text, limit=2, offset=2 * page)] == found
        assert [hit.score for hit in index.ask(text).hits] == sorted(
            (h.score for h in index.ask(text).hits), reverse=True
        )


def term(word: str, chunks: int) -> Term:
    """A word that stands in so many chunks."""
    return Term(Word(word), chunks, (Pattern(word, chunks, (word,)),), ())


@pytest.mark.parametrize(
    ("words", "matched", "weak"),
    [
        ({"rare": 1, "common": 500}, {"common"}, True),  # weights 6.5 and 0.7
        ({"rare": 1, "common": 500}, {"rare"}, False),
        ({"a": 10, "b": 10}, {"a"}, False),  # half of it
        ({"a": 10, "b": 60}, {"b"}, False),  # 2.8 of 7.4, 38 %
        ({"a": 10, "b": 200}, {"b"}, True),  # 1.6 of 6.2, 26 %
        ({"a": 1, "b": 100}, {"b"}, True),  # 2.4 of 8.9, 26 %
        ({"a": 10, "b": 10, "c": 10}, {"a"}, False),
        ({"a": 10, "b": 10, "c": 10}, {"a", "b"}, False),
        ({"everywhere": 1000, "rare": 1}, {"everywhere"}, True),
        ({"everywhere": 1000}, {"everywhere"}, False),
        ({"nowhere": 0, "rare": 1}, {"rare"}, False),  # 6.5 of 14.1, 46 %
        ({"nowhere": 0, "a": 40}, {"a"}, True),  # 3.2 of 10.8, 29.8 %
    ],
)
def test_rare_words_weigh_more(words: dict[str, int], matched: set[str], weak: bool) -> None:
    """In an index of 1,000 chunks: an answer with less than 30 % of the weight is weak."""
    asked = Terms(tuple(term(word, chunks) for word, chunks in words.items()), (), (), 1000, {}, [], {})
    assert is_weak(asked, matched, None) == weak


@pytest.mark.parametrize(
    ("matched", "strength", "weak"),
    [({"a"}, 0.6, True), ({"a"}, 0.8, False), ({"a", "b"}, 0.6, False), ({"a"}, None, False)],
)
def test_words_that_say_little_where_they_are_are_a_coincidence(
    matched: set[str], strength: float | None, weak: bool
) -> None:
    """In a long text, or in what a tool said: unless all words are there. A title says what it says."""
    asked = Terms((term("a", 10), term("b", 10)), (), (), 1000, {}, [], {})
    assert is_weak(asked, matched, strength) == weak


def test_what_a_tool_said_among_much_else_is_weaker_than_what_was_said() -> None:
    """Half of the question, in both."""
    others = [session(n, cwd=f"/{n}").user(f"{OTHER} {n}") for n in range(2, 9)]
    said = session(0, cwd="/a").user("the plugh of the xyzzy")
    mentioned = session(1, cwd="/b").user(OTHER).tool("bash", {"command": "ls"}, f"plugh xyzzy {OTHER * 9}")
    with tiny(said, *others) as index:
        assert not index.ask("plugh xyzzy thud").weak
    with tiny(mentioned, *others) as index:
        assert index.ask("plugh xyzzy thud").weak
        assert not index.ask("plugh xyzzy").weak


def test_a_correction_weighs_as_what_was_found() -> None:
    """A word that is nowhere is rare; `skill`, which was searched instead of `spill`, is not."""
    spill = Term(Word("spill"), 0, (Pattern('"spill"', 0), Pattern('"skill"', 400)), ("skill",))
    asked = Terms(
        (term("spark", 10), term("executor", 60), spill), (), (), 1000, {}, [], {}
    )  # 4.6, 2.8 and 7.6, or 0.9
    assert is_weak(asked._replace(terms=(asked.terms[0], spill)), {"spill"}, None)
    assert not is_weak(asked, {"executor", "spark"}, None)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=4), st.integers(20, 30))
@example([(15, True), (11, False)], 20)  # hardly not weak, and hardly weak
@example([(17, True), (15, False)], 20)
def test_weights_are_those_of_bm25(words: list[tuple[int, bool]], chunks: int) -> None:
    """The logarithm of how much rarer a word is than one in every chunk."""
    weights = [math.log((chunks + 1) / (count + 0.5)) for count, _ in words]
    held = sum(weight for weight, (_, is_held) in zip(weights, words, strict=True) if is_held)
    enough = 0.3
    assume(abs(held - enough * sum(weights)) > 1e-9)
    matched = {f"w{number}" for number, (_, is_held) in enumerate(words) if is_held}
    asked = Terms(
        tuple(term(f"w{number}", count) for number, (count, _) in enumerate(words)), (), (), chunks, {}, [], {}
    )
    assert is_weak(asked, matched, None) == (held < enough * sum(weights))
