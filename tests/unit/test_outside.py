"""What bench.outside makes of others' data: sessions, and questions that mean some of them."""

import json
from pathlib import Path
from typing import Any

from bench import outside

LOCOMO: dict[str, Any] = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada", "speaker_b": "Ben",
        "session_2": [{"speaker": "Ada", "text": "The quinces are ripe."}],
        "session_2_date_time": "12:05 am on 9 May, 2023",
        "session_1": [{"speaker": "Ben", "text": "Look", "blip_caption": "a tree"}, {"speaker": "Ada", "text": "Fine!"}],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    },
    "qa": [
        {"question": "What is ripe?", "category": 4, "evidence": ["D2:1"]},
        {"question": "What did Ben show?", "category": 1, "evidence": ["D1:1; D2:1"]},
        {"question": "Who knows?", "category": 3, "evidence": []},
    ],
}  # fmt: skip
LONGMEMEVAL: dict[str, Any] = {
    "question_id": "q7", "question": "What is ripe?", "question_type": "single-session-user",
    "haystack_session_ids": ["a", "b"], "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 10:00"],
    "haystack_sessions": [[{"role": "user", "content": "Quinces."}], [{"role": "assistant", "content": "Pears."}]],
    "answer_session_ids": ["a"],
}  # fmt: skip


def test_locomo_by_session() -> None:
    """In their order, whoever speaks; evidence is a turn of a session, and some are written together."""
    conversation = outside.read_locomo(LOCOMO)
    assert [(one.id, f"{one.at:%d %H:%M}", one.said) for one in conversation.sessions] == [
        ("conv-1-1", "08 13:56", [("assistant", "Ben: Look a tree"), ("user", "Ada: Fine!")]),
        ("conv-1-2", "09 00:05", [("user", "Ada: The quinces are ripe.")]),
    ]
    assert [(one.kind, sorted(one.meant)) for one in conversation.questions] == [
        ("one session", ["conv-1-2"]),
        ("several sessions", ["conv-1-1", "conv-1-2"]),
    ]


def test_longmemeval_by_question() -> None:
    """Each has sessions of its own; one about nothing that was said asks nothing."""
    conversation = outside.read_longmemeval(LONGMEMEVAL)
    assert [(one.id, one.said) for one in conversation.sessions] == [
        ("q7-a", [("user", "Quinces.")]),
        ("q7-b", [("assistant", "Pears.")]),
    ]
    (question,) = conversation.questions
    assert question == outside.Question("What is ripe?", "single-session-user", frozenset({"q7-a"}))
    assert outside.read_longmemeval({**LONGMEMEVAL, "question_id": "q7_abs"}).questions == []


def test_a_directory_is_read_and_written(tmp_path: Path) -> None:
    """By the names of its files, as sessions of pi's."""
    (tmp_path / "locomo10.json").write_text(json.dumps([LOCOMO]))
    (tmp_path / "longmemeval_s.json").write_text(json.dumps([LONGMEMEVAL]))
    (tmp_path / "other.json").write_text("no JSON")
    conversations = list(outside.read_conversations(str(tmp_path)))
    assert [one.name for one in conversations] == ["conv-1", "q7"]
    outside.write_sessions(str(tmp_path / "made"), conversations)
    written = sorted(path.relative_to(tmp_path / "made").as_posix() for path in (tmp_path / "made").rglob("*.jsonl"))
    assert written == ["conv-1/conv-1-1.jsonl", "conv-1/conv-1-2.jsonl", "q7/q7-a.jsonl", "q7/q7-b.jsonl"]
    first, *messages = map(json.loads, (tmp_path / "made" / written[0]).read_text().splitlines())
    assert (first["id"], first["cwd"]) == ("conv-1-1", "/outside/conv-1")
    assert [one["message"]["role"] for one in messages] == ["assistant", "user"]


def test_shares_by_kind() -> None:
    """Within so many places, of each kind and of all."""
    outcomes = [
        outside.Outcome("time", "all", 1),
        outside.Outcome("time", "all", 4),
        outside.Outcome("one", "all", None),
    ]
    table = outside.tabulate(outcomes, 3)
    assert [row[:7] for row in table.rows] == [
        ("one", "1", "all", "0.0", "0.0", "0.0", "0.0"),
        ("time", "2", "all", "50.0", "50.0", "100.0", "100.0"),
        ("**all kinds**", "3", "all", "33.3", "33.3", "66.7", "66.7"),
    ]
