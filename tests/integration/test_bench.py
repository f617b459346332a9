"""`python -m bench` measures: a little of what is asked for, with real daemons, and beside other programs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench import parts
from bench.instance import PROJECT
from tests.support.daemon import eventually

# Stands for one of the programs that are compared: they cannot be had everywhere.
INDEXER = """#!/bin/sh
case "$1" in
  --version) echo "indexer 1.2.3";;
  --rebuild) sleep 0.05; cat "$HOME"/.pi/agent/sessions/*/*.jsonl > "$HOME/index";;
  *) grep -q . "$HOME/index";;
esac
"""
BROKEN = "#!/bin/sh\necho 'it is | broken' >&2\nexit 3\n"


def run(tmp_path: Path, *flags: str, **environ: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    path = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--no-raise", "--messages", "100", "--json", str(path), *flags],
        cwd=PROJECT, env={**os.environ, **environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done, json.loads(path.read_text()) if path.exists() else {}


def rows(figures: dict[str, Any], name: str, table: int = 0) -> list[dict[str, str]]:
    found = figures[name]["tables"][table]
    return [dict(zip(found["header"], row, strict=True)) for row in found["rows"]]


def test_markdown_and_json_with_conditions(tmp_path: Path) -> None:
    """Both say the same; of the first line the machine decides what it says."""
    done, figures = run(tmp_path, "--only", "query,pauses")
    assert done.returncode == 0, done.stderr
    assert "scheduling group" in done.stdout.split("\n")[0]
    assert list(figures) == ["pauses", "query"]
    for part in figures.values():
        assert f"Measured {part['conditions']}." in done.stdout
        assert "; 100 messages in 2 sessions; load " in part["conditions"]
        for table in part["tables"]:
            assert f"### {table['title']}" in done.stdout
    kinds = [row["query"] for row in rows(figures, "query")]
    assert kinds[-2:] == ["all", "all, the first time"]
    assert len(kinds) == 8
    assert len(rows(figures, "query", 1)) == 5
    assert [(row[""], row["n"]) for row in rows(figures, "pauses")] == [
        ("warm", "60"),
        ("warm, other kinds", "50"),
        ("**after a pause**", "1"),
        ("after a start, cache dropped", "6"),
        ("after a start, cache dropped, other kinds", "5"),
    ]
    assert "Dropped: the files of the index." in figures["pauses"]["tables"][0]["note"]


def test_many_clients(tmp_path: Path) -> None:
    """Each number of them gets answers, and so does who asks beside them."""
    done, figures = run(tmp_path, "--only", "throughput")
    assert done.returncode == 0, done.stderr
    found = rows(figures, "throughput")
    assert [row[""] for row in found][:4] == ["1 client", "2 clients", "10 clients", "10 clients, again"]
    assert all(int(row["answers"]) for row in found)
    assert found[0]["of one client's"] == found[4]["of one client's"] == "1.00"


def test_rivals(tmp_path: Path) -> None:
    """Who is there is measured beside us; who is not, or does not work, is said, and is no error."""
    for name, script in (("indexer", INDEXER), ("broken", BROKEN)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o700)
    given = [f"--rival=fast-resume={tmp_path / 'indexer'}", f"--rival=agentsview={tmp_path / 'broken'}"]
    (tmp_path / "path").mkdir()
    for name in ("cat", "grep", "sleep"):  # and none of the programs that this machine may have
        (tmp_path / "path" / name).symlink_to(shutil.which(name) or "/nowhere")
    done, figures = run(tmp_path, "--only", "rivals", *given, PATH=str(tmp_path / "path"))
    assert done.returncode == 0, done.stderr
    indexed, asked = rows(figures, "rivals"), rows(figures, "rivals", 1)
    assert [row[""] for row in indexed] == ["**sesame, this one**", "fast-resume 1.2.3"]
    assert float(indexed[0]["sesame is so many times as fast"]) == 1.0
    assert 0 < float(indexed[1]["sesame is so many times as fast"]) < 1
    assert [row[""] for row in asked] == ["**sesame, this one**", "fast-resume 1.2.3", "fast-resume 1.2.3"]
    assert all(row["n"] == asked[0]["n"] for row in asked)
    note = figures["rivals"]["tables"][0]["note"]
    assert "sesame" in note.partition("Not installed: ")[2].partition(".")[0]
    assert note.endswith("agentsview could not index it: it is / broken.")


def test_a_bench_that_fails_stops_no_other(tmp_path: Path) -> None:
    """It is named, and the exit code says that there was one."""
    (tmp_path / "none").mkdir()
    done, figures = run(tmp_path, "--only", "query,idle", "--corpus", str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("failed: query")
    assert list(figures) == ["idle"]


@pytest.mark.skipif(not os.path.exists("/proc/self/autogroup"), reason="the kernel has no scheduling groups")
def test_a_run_has_a_scheduling_group_of_its_own() -> None:
    """Whether or not it leads a group of processes, as a shell's command does; nobody else's is touched."""
    own = Path("/proc/self/autogroup").read_text()
    code = "from bench.conditions import raise_group; print(raise_group()); print(open('/proc/self/autogroup').read())"
    for leads in (0, None):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, process_group=leads, check=True
        )
        said, group, *_ = done.stdout.split("\n")
        if said == "no scheduling groups":
            continue
        # A process that no session was begun for is in the kernel's own group, of which the file says nothing.
        assert not group or group.split()[0] not in own.split()
        assert said.startswith("scheduling group not raised") or group.endswith("nice -19")
    assert Path("/proc/self/autogroup").read_text() == own


def test_a_corpus_is_made_once_and_kept(tmp_path: Path) -> None:
    """What another run made is taken; what one that was stopped left behind is not."""
    (tmp_path / "50-1.part").mkdir()
    with parts.Corpora(None, str(tmp_path)) as corpora:
        place = corpora.find(50)
        assert corpora.find(50) == place
    before = sorted(path.stat().st_ino for path in Path(place).rglob("*"))
    assert before
    with parts.Corpora(None, str(tmp_path)) as corpora:
        assert corpora.find(50) == place
    assert sorted(path.stat().st_ino for path in Path(place).rglob("*")) == before


def test_a_run_that_is_told_to_end_leaves_nothing() -> None:
    """Neither a daemon nor a directory."""
    with tempfile.TemporaryDirectory(prefix="s-") as place:
        command = [sys.executable, "-m", "bench", "--quick", "--messages", "100", "--pause", "3600", "--only", "pauses"]
        process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "TMPDIR": place}, stdout=subprocess.DEVNULL)
        eventually(lambda: list(Path(place).glob("sb-*/run/s")))
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
        assert os.listdir(place) == []
