"""The index as a whole: index runs, waiting for what is on disk, forgetting."""

from functools import partial

from msgspec.structs import asdict, replace

from sesamed.errors import ParamsError
from sesamed.methods.filters import Filters, make_where
from sesamed.methods.method import MAX_OFFSET, Call, Context, NonNegative, Params, find_next_offset, method
from sesamed.model import Answer, IndexReport, Pending, Progress
from sesamed.sanitize import Exact, Line
from sesamed.store.reading.summary import read_bad_files, show_path
from sesamed.store.writing.decisions import choose_doomed

SYNC_TIMEOUT_MS = 60_000
MAX_SYNC_TIMEOUT_MS = 86_400_000
MAX_BAD_FILES = 100


class IndexParams(Params, frozen=True, kw_only=True):
    """How thorough an index run is."""

    full: bool = False
    drop_gone: bool = False
    progress: bool = False


class ProgressLine(Progress, frozen=True, kw_only=True, rename="camel"):
    """A progress notification, with the id of the request it belongs to."""

    id: str | int | None


@method
async def index(context: Context, call: Call, params: IndexParams) -> IndexReport:
    """Check every file now; with full, rebuild the index."""

    async def notify(progress: Progress) -> None:
        await call.notify("progress", ProgressLine(id=call.id, **asdict(progress)))

    report_progress = notify if params.progress and call.id is not None else None
    report = await context.ingest.index(full=params.full, drop_gone=params.drop_gone, report=report_progress)
    return replace(report, took_ms=round(report.took_ms, 3))


class SyncParams(Params, frozen=True, kw_only=True):
    """Which files may have changed; all of them if none is named."""

    paths: list[str] | None = None
    timeout_ms: NonNegative | None = None


class SyncResult(Answer, frozen=True, kw_only=True):
    """What is still to be read, and which paths are outside every root."""

    pending: Pending
    ignored: list[Exact]


@method
async def sync(context: Context, call: Call, params: SyncParams) -> SyncResult:
    """Wait until everything on disk at the time of the call is searchable."""
    timeout_ms = SYNC_TIMEOUT_MS if params.timeout_ms is None else min(params.timeout_ms, MAX_SYNC_TIMEOUT_MS)
    pending, ignored = await context.ingest.sync(params.paths, timeout_ms / 1000)
    return SyncResult(pending=pending, ignored=ignored)


class ListBadLinesParams(Params, frozen=True, kw_only=True):
    """Which page."""

    limit: NonNegative = 20
    offset: NonNegative = 0


class BadLine(Answer, frozen=True, kw_only=True):
    """Where in the file, if it is a line, and why it could not be decoded."""

    line: int | None
    reason: Line


class BadFile(Answer, frozen=True, kw_only=True):
    """A file, or one session of a file with several, of which something could not be decoded; the first hundred lines are named."""

    path: Exact
    part: Exact | None
    source: str
    session_id: Exact | None
    bad_lines: int
    lines: list[BadLine]


class UnfinishedLine(Answer, frozen=True, kw_only=True):
    """The end of a file that waits for its newline."""

    path: Exact
    bytes: int


class BadLineList(Answer, frozen=True, kw_only=True):
    """What could not be decoded, by files, the last written ones first."""

    total: int
    files: list[BadFile]
    next_offset: int | None
    unfinished: list[UnfinishedLine]


@method
async def list_bad_lines(context: Context, call: Call, params: ListBadLinesParams) -> BadLineList:
    """What could not be decoded, and why; and the last lines that are not whole yet."""
    limit, offset = min(params.limit, MAX_BAD_FILES), min(params.offset, MAX_OFFSET)
    total, found = await context.queries.ask(call.client, partial(read_bad_files, limit=limit, offset=offset))
    return BadLineList(
        total=total,
        files=[
            BadFile(
                path=show_path(file.unit.path),
                part=show_path(file.unit.part) or None,
                source=file.source,
                session_id=file.session_id,
                bad_lines=file.bad_lines,
                lines=[BadLine(line=bad.line, reason=bad.reason) for bad in file.lines],
            )
            for file in found
        ],
        next_offset=find_next_offset(offset, len(found), total),
        unfinished=[
            UnfinishedLine(path=path, bytes=size) for path, size in context.ingest.list_unfinished(MAX_BAD_FILES)
        ],
    )


class ForgetParams(Params, frozen=True, kw_only=True):
    """What to forget: exactly one of these."""

    session_id: str | None = None
    source: str | None = None
    cwd: str | None = None
    dry_run: bool = False


class Forgotten(Answer, frozen=True, kw_only=True):
    """How much was forgotten, or would be."""

    sessions: int
    chunks: int


@method
async def forget(context: Context, call: Call, params: ForgetParams) -> Forgotten:
    """Remove sessions from the index for good; their files stay."""
    given = [name for name in ("session_id", "source", "cwd") if getattr(params, name) is not None]
    if len(given) != 1:
        raise ParamsError("forget: give exactly one of sessionId, source and cwd")
    where = await make_where(context, Filters(source=params.source, cwd=params.cwd))
    choose = partial(choose_doomed, reference=params.session_id, where=where)
    sessions, chunks = await context.queries.ask(call.client, choose)
    if sessions and not params.dry_run:
        await context.ingest.forget(sessions)
    return Forgotten(sessions=len(sessions), chunks=chunks)
