"""What can go wrong, and what sesame promises then. `docs/faults.md` is made of this table and of the tests that are marked with the
numbers in it: `python -m tests.support.faults > docs/faults.md`."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
HEAD = """# Faults

What can go wrong, what sesame promises then, and the tests that hold the promise. Made by `python -m tests.support.faults`: the tests are
those marked with `@pytest.mark.fault(number)`; the table stands in `tests/support/faults.py`.

Two promises hold for all of them: when the fault is over, the index has what a plain reading of the files has, each record once; and while
it lasts, `status` names it if answers are incomplete because of it.
"""


# A mark, whatever stands between it and its test, and the test. (Found in the text: to parse all of it takes half a second.)
MARKED = re.compile(
    r"^@pytest\.mark\.fault\(([\d, ]+)\)\n(?=(?:(?!(?:async )?def ).*\n)*?(?:async )?def test_(\w+))", re.MULTILINE
)


class Fault(NamedTuple):
    """A number for the tests to name, what happens, what is promised; and why there is no test, if there is none."""

    number: int
    what: str
    promise: str
    untested: str = ""


AREAS: dict[str, tuple[Fault, ...]] = {
    "Watching": (
        Fault(1, "The kernel's queue of events overflows", "All roots are swept"),
        Fault(2, "Directories are made and written to at once", "No file is missed"),
        Fault(3, "A directory is moved into a root", "Its files are found, and what is appended to them later"),
        Fault(4, "A directory is renamed within a root", "Its sessions stay the same, at their new paths"),
        Fault(5, "A directory is moved out and still written to", "Events with its old path change nothing"),
        Fault(6, "A root is deleted and made anew", "It is watched again"),
        Fault(7, "A root does not exist at the start", "It is found when it is made"),
        Fault(8, "A root is a link", "It is resolved, and resolved again with each sweep"),
        Fault(9, "A file changes without an event (another hard link, mmap)", "The next sweep finds it"),
        Fault(10, "A directory becomes readable", "The next sweep enters it"),
        Fault(11, "`max_user_watches` is exhausted", "Polling; the warning names the sysctl"),
        Fault(12, "`max_user_instances` is exhausted", "Polling"),
        Fault(13, "The thread that gets events fails or dies", "It is noticed, roots are swept and watched again"),
        Fault(14, "More changes than can be remembered", "They become one sweep; memory stays bounded"),
        Fault(15, "Reading a file causes events", "They are filtered out; an idle daemon does nothing"),
        Fault(16, "A move without its other half delays events", "The file is found all the same, half a second later"),
        Fault(17, "A file system without events (NFS, SMB, FUSE, WSL)", "It is polled, and `status` says so"),
        Fault(18, "Events are dropped, merged or late (FSEvents)", "The sweep finds what they did not tell"),
        Fault(
            19,
            "One file under several spellings (case, composed letters)",
            "What is excluded is excluded under each of them; filters by directory and file find it under each",
        ),
        Fault(
            20,
            "Tens of thousands of files change",
            "The newest come first, live ones before all, questions are answered",
        ),
        Fault(21, "A disk is unmounted; the machine sleeps", "Sessions are not taken for deleted; a sweep follows"),
        Fault(22, "The watching library floods the log", "It does not get through to the log"),
    ),
    "Files and lines": (
        Fault(23, "The last line is incomplete", "It waits, and is indexed once, when it is whole"),
        Fault(24, "The file ends within a character", "Lines are cut as bytes, so nothing is lost"),
        Fault(25, "A run of NUL bytes", "A bad line, counted; reading goes on"),
        Fault(26, "A torn line with a whole one glued to it", "The whole one is read"),
        Fault(27, "Two objects on one line", "Both are read"),
        Fault(28, "A line that is no JSON", "A bad line with number and reason; reading goes on"),
        Fault(29, "An enormous line", "Passed over from `limits.maxLineBytes` on, in bounded memory"),
        Fault(30, "JSON nested without end", "A bad line, or -32700 for a request"),
        Fault(31, "Numbers without end, NaN", "Values that no field can hold are left out"),
        Fault(32, "Half a surrogate pair", "Replaced"),
        Fault(33, "U+2028, U+0085 and others that look like line ends", "Only `\\n` ends a line"),
        Fault(34, "A byte order mark; UTF-16", "The mark does not matter; UTF-16 is not guessed at and is bad"),
        Fault(35, "Fields missing, twice, or of another type", "Only that field is lost"),
        Fault(36, "NUL within a text", "Replaced when it is indexed"),
        Fault(37, "A file is truncated", "What was cut off leaves the index"),
        Fault(38, "A file is truncated and grows beyond where it was", "Noticed by its content, and read anew"),
        Fault(39, "A file is rewritten with the same size or time", "Noticed by content and the other times"),
        Fault(
            40,
            "A file is replaced by renaming another over it",
            "Goes on where it was if the content is the same so far",
        ),
        Fault(41, "An inode number is used again", "Content decides, never the inode alone"),
        Fault(42, "Modification times in the past, the future or out of range", "Compared for equality only"),
        Fault(
            43,
            "A file cannot be read, or goes while it is read",
            "What was indexed stays; it is tried again, and `status` says why",
        ),
        Fault(
            44, "A file is deleted for good", "Its session stays searchable, marked as gone, for as long as `gone` says"
        ),
        Fault(45, "A record is in several files", "Indexed once; each file's session has it"),
        Fault(46, "A pipe, device, socket or directory with a session's name", "Ignored, without waiting for it"),
        Fault(47, "Links out of a root, or a directory swapped for one", "Not followed"),
        Fault(48, "A file with more size than content", "Read in turns with the others, in bounded memory"),
        Fault(49, "A file grows faster than it is read", "Files are read in turns"),
        Fault(50, "File names with any bytes", "Read and shown, cleaned"),
        Fault(51, "The stored place is not at the beginning of a line", "The file is read anew"),
        Fault(52, "A finished file has no newline at its end", "Its last line is taken when the file is quiet"),
        Fault(53, "Empty files", "Sessions without messages; nothing is complained of"),
    ),
    "The index": (
        Fault(54, "kill -9 at any moment", "Each record is indexed once"),
        Fault(55, "A power cut takes the last commits back", "What they read is read again"),
        Fault(
            56,
            "The disk is full",
            "Questions are answered, `status` says why nothing new comes; it goes on when there is room",
        ),
        Fault(57, "The disk is read-only", "The daemon says so and does not start"),
        Fault(58, "Another program locks the index", "Questions are answered; writing waits for it"),
        Fault(59, "A reader takes long", "The WAL stays bounded"),
        Fault(
            60,
            "SQLite's WAL-reset fault",
            "SQLite comes with apsw, 3.51.3 or newer, which does not have it",
        ),
        Fault(61, "Pages of the index are damaged", "It is set aside and built anew; no wrong answer"),
        Fault(62, "The full-text index is damaged", "`doctor --deep` finds it"),
        Fault(63, "Full-text index and texts differ", "`doctor --deep` finds it"),
        Fault(
            64,
            "The index is emptied, deleted or replaced while it is used",
            "It is built anew, or the daemon ends and says why",
        ),
        Fault(65, "Rubbish in the WAL", "Ignored, or as 61"),
        Fault(66, "An index is set aside", "With its siblings, private, and `status` says so"),
        Fault(67, "A crash while the index is built anew", "The old one or the new one is there, whole"),
        Fault(68, "The index is of a newer version", "Refused with exit code 78, and left untouched"),
        Fault(
            69,
            "A copy of the index while it is written",
            "",
            "never made: an index is built beside the old one and renamed",
        ),
        Fault(
            70,
            "The index or the socket is on a network file system",
            "`doctor` says so; a disk without locks is refused",
        ),
        Fault(71, "The umask is open", "Files 0600, directories 0700"),
        Fault(
            72, "A forgotten session's text in free pages, WAL or segments", "It is in no file of the data directory"
        ),
    ),
    "Socket and protocol": (
        Fault(73, "A socket whose daemon is dead", "Replaced by whoever holds the lock"),
        Fault(74, "A second daemon", "Exits with 75 and names the first; a live socket is never touched"),
        Fault(
            75,
            "The socket or its directory is deleted or replaced",
            "The daemon listens again within seconds, or ends and says why",
        ),
        Fault(
            76,
            "The daemon hangs",
            "Clients give up after a time, and say what to do (never reading the index themselves); a loop that stands still ends",
        ),
        Fault(77, "Client and daemon see different environments", "Both find the socket by the same rule"),
        Fault(78, "A path too long for a socket", "Refused by everybody in the same way"),
        Fault(79, "Somebody else's directory, or a link, where the socket belongs", "Refused, with the reason"),
        Fault(80, "Another user connects", "Closed before a byte is read"),
        Fault(81, "A request without end", "-32600 and closed, in bounded memory"),
        Fault(
            82,
            "Slow, idle, greedy and too many clients",
            'Deadlines, limits and turns; a question and `stop` always get in; a refusal says "busy"',
        ),
        Fault(83, "A client that does not read", "Dropped; nobody else waits for it"),
        Fault(84, "No descriptors are left", "Accepting pauses, and goes on"),
        Fault(85, "Anything that is no request", "The error that JSON-RPC has for it; the daemon lives on"),
        Fault(86, "Line ends within an answer", "Answers are ASCII, one line each"),
        Fault(87, "Client and daemon of different versions", "The newer one wins; an older client only warns"),
        Fault(88, "A client leaves or cancels", "Its query ends"),
        Fault(89, "An expensive query", "Ends at its deadline, with an error that says so"),
        Fault(90, "Any text as a query", "Is never FTS5 syntax, and never fails"),
        Fault(91, "An enormous answer", "Limits are clamped; pages instead"),
        Fault(
            92, "The daemon dies in the middle of an answer", "Reads are asked once more; what changes something is not"
        ),
    ),
    "Process, service, clock": (
        Fault(93, "Twenty clients start a daemon at once", "One daemon; everybody is answered"),
        Fault(94, "The terminal that started the daemon is closed", "It lives on"),
        Fault(
            95,
            "SIGTERM",
            "Running requests end, in at most 5 s. (SIGHUP is ignored: configuration is read at the start)",
        ),
        Fault(
            96, "The daemon hangs under a service manager", "Its watchdog starts it again; only progress is told to it"
        ),
        Fault(97, "The service crashes again and again", "The client says so, and what to do"),
        Fault(98, "The program is upgraded under a running daemon", "The next client has it restarted"),
        Fault(99, "The clock jumps; times that are none", "Deadlines don't depend on it; what is no time is left out"),
        Fault(
            100,
            "Logout ends the service",
            "",
            "documented in docs/service.md, with `loginctl enable-linger`; needs a real login",
        ),
        Fault(101, "Days of work", "Memory, threads and descriptors stay level"),
        Fault(102, "No home; directories of another user", "Refused, with the reason"),
        Fault(103, "A limit on the size of files (SIGXFSZ)", "As with a full disk"),
    ),
    "Output and privacy": (
        Fault(104, "Control and hidden characters in any field", "None reaches a terminal or a model"),
        Fault(105, "Instructions within what was found", "Quoted for models, so that they can be told from ours"),
        Fault(106, "Text of sessions in logs", "None, at any level"),
        Fault(107, "Excluded files", "Never opened; what was indexed of them goes"),
        Fault(108, "A server that other machines share", "", "there is none yet"),
    ),
    "Session memory in pi": (
        Fault(109, "The session or pi ends while a model is asked", "The call ends, and nothing is stored"),
        Fault(110, "A model's answer is of no use", "It is asked twice more; then nothing is stored"),
        Fault(111, "The provider fails, or there is no login", "It is told; the provider is not asked again by itself"),
        Fault(112, "Several pi spend at the same time, or are killed", "A day costs no more than its budget"),
        Fault(113, "A document beside pi's sessions is corrupt, or newer", "Told and written anew, or left as it is"),
        Fault(114, "The extension session-index is loaded as well", "It is left to it"),
    ),
    "Many machines": (
        Fault(115, "Who follows is killed while it writes", "The file is written anew; what is whole is kept"),
        Fault(
            116, "The hub goes away, for a while or for good", "What is followed stays, and is found; then it goes on"
        ),
        Fault(
            117,
            "What is followed is forgotten, excluded or not shared any more",
            "It goes here, too, and is not `gone`",
        ),
        Fault(118, "Two machines follow each other", "Nothing is shipped again; when nobody writes, nothing moves"),
        Fault(
            119,
            "Somebody in a team ships under a strange id, or a colleague's keys",
            "It leads to no other file, and stands for nothing that another one said",
        ),
        Fault(120, "More is followed than there is room for", "No more comes, which is said"),
        Fault(121, "The index is lost, or built anew", "What is followed is read again from its files"),
        Fault(
            122,
            "The process that ships, or the hub's for it, is killed in the middle",
            "All of a transaction is there, or nothing",
        ),
        Fault(123, "A connection is cut in a commit", "Where it goes on is read in the hub; nothing is there twice"),
        Fault(
            124,
            "The hub is gone, is started again, or a network is cut",
            "Local answers come; all is shipped when it is back",
        ),
        Fault(125, "The hub's disk is full", "`status` says so; all is shipped when there is space"),
        Fault(
            126,
            "Two daemons ship as one workstation, or a workstation has another id",
            "Refused, until somebody accepts it",
        ),
        Fault(127, "The hub's tables are newer, older or missing", "It works, or says what to upgrade or to run"),
        Fault(128, "NUL and half surrogate pairs in what is shipped", "They are left out, and stop nothing"),
        Fault(129, "A clock is wrong by years", "Nothing is shipped twice or left out"),
        Fault(130, "Many workstations ship at once, with forks of one session", "Each has what it shipped, each once"),
        Fault(131, "Sessions grow without end during a first fill", "It ends with what there was when it began"),
        Fault(
            132,
            "Somebody with a role in the hub tries to read or change what is another's",
            "Nothing is shown or changed",
        ),
        Fault(
            133,
            "Several persons use one role, or one that is above policies",
            "Refused, unless the configuration says otherwise",
        ),
        Fault(134, "The index is replaced while it is shipped", "Nothing leaves that was not allowed"),
        Fault(
            135,
            "A session goes on in a denied directory, after it was shipped or meanwhile",
            "All of it goes from the hub, with what comes of it",
        ),
    ),
    "Posting arrays": (
        Fault(
            136,
            "The file of posting arrays is cut, damaged, older, of another index or gone",
            "It is not used, and made anew; no wrong answer",
        ),
    ),
    "The second process that answers": (
        Fault(
            137,
            "It is killed, hangs or talks nonsense",
            "The daemon answers what it was asked; a minute later there may be another one",
        ),
    ),
}


@functools.cache
def tests_by_fault() -> dict[int, list[str]]:
    """The tests that are marked with each number."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for numbers, name in MARKED.findall(path.read_text(encoding="utf-8")):
            for number in numbers.split(","):
                found.setdefault(int(number), []).append(f"{path.stem}::{name}")
    return found


def document() -> str:
    """The text of docs/faults.md."""
    tests, lines = tests_by_fault(), [HEAD]
    for area, faults in AREAS.items():
        lines += [f"## {area}", "", "| | fault | promise | tests |", "|---|---|---|---|"]
        for fault in faults:
            names = "<br>".join(f"`{name}`" for name in tests.get(fault.number, [])) or f"none: {fault.untested}"
            lines.append(f"| {fault.number} | {fault.what} | {fault.promise} | {names} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(document(), end="")  # noqa: T201  # this is what it is run for
