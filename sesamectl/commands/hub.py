"""`hub`: the PostgreSQL that machines ship to. Makes its tables, says how far it is, ships now, tells what is wrong, takes all out."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from sesamectl.errors import RefusedError, RpcError
from sesamectl.flags import Arguments
from sesamectl.output import require_output, show
from sesamectl.render import clean, number, size
from sesamectl.render.dates import minute
from sesamectl.render.terminal import ALARM, BOLD, DIM, Terminal
from sesamed.config import Config, load
from sesamed.errors import SesameError
from sesamed.hub import checking, progress, server
from sesamed.hub.child import identify_here
from sesamed.hub.claim import Claim, check_team
from sesamed.hub.migrations import VERSION
from sesamed.hub.outgoing import Outgoing
from sesamed.hub.shipping import Shipper
from sesamed.paths import Paths, find
from sesamed.sources import SOURCES
from sesamed.store.index import let_visitors_in

NOT_CONFIGURED = "no hub is configured: set hub.dsn or hub.service in {file}, and run `sesamectl restart`"
OTHER_RULES = "the daemon ships by the rules that it was started with, and not by those in {file}; `sesamectl restart` has it ship by these"
CREATES = "the schema sesame in that database: tables of sessions, messages, word counts and teams, with row-level security, and a view"


def run(arguments: Arguments) -> int:
    """Run the action; gives the exit code."""
    require_output()
    actions: Mapping[str, Callable[[Arguments, Paths, Config], int | None]] = {
        "init": _init,
        "status": _status,
        "fill": _fill,
        "check": _check,
        "forget": _forget,
    }
    try:
        paths = find(os.environ)
        config = load(paths.config_file, os.environ, SOURCES.keys())
        if not config.hub.is_named and not (arguments.words[0] == "init" and arguments.has("print")):
            raise RefusedError(NOT_CONFIGURED.format(file=paths.config_file))
        return actions[arguments.words[0]](arguments, paths, config) or 0
    except SesameError as error:
        raise RpcError(error.code, error.message, dict(error.data)) from None


def _confirm(question: str, arguments: Arguments, instead: str) -> None:
    """Ask a person; without one, only who has said --yes gets further."""
    if arguments.has("yes"):
        return
    if arguments.has("json") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError(instead)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RefusedError("nothing was changed")


# -- init


def _init(arguments: Arguments, paths: Paths, config: Config) -> None:
    grantee = arguments.values.get("grant-to", "PUBLIC")
    if arguments.has("print"):
        text = server.print_statements(grantee)
        show({"statements": text}, lambda answer, _: [answer["statements"].strip()], arguments)
        return
    with server.connect(config.hub) as connection:
        server.check_server(connection)
        there, _ = server.find_version(connection)
        if there < VERSION:
            info = connection.info
            place = f"database {info.dbname}, as {info.user}; {grantee} may use it"
            print(f"This creates {CREATES} ({clean(place)}).", file=sys.stderr)
            _confirm("Create it?", arguments, "say --yes to create it, or --print to see the statements")
        done = server.migrate(connection, grantee)
    show({"version": max(there, VERSION), "done": done}, _init_lines, arguments)


def _init_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    what = "is made" if answer["done"] else "is there already"
    yield f"the hub's schema, version {int(answer['version'])}, {what}"


# -- status


def _status(arguments: Arguments, paths: Paths, config: Config) -> None:
    said = progress.read(paths.data_dir)
    machines, error = [], None
    try:
        with server.connect(config.hub) as connection:
            server.check_schema(connection)
            machines = checking.list_machines(connection)
            with server.errors():
                check_team(connection, config.hub)
    except SesameError as failed:
        error = failed.message
    answer = {
        "shipping": msgspec.to_builtins(said),
        "workstations": machines,
        "error": error,
        "daemonHasOtherRules": _has_other_rules(paths, config),
    }
    show(answer, _status_lines, arguments)


def _status_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    said = answer["shipping"]
    if said is None:
        yield "shipping  nothing was shipped yet; `sesamectl restart` starts it after a change of the configuration"
    else:
        yield f"shipping  {terminal.paint(BOLD, clean(said['phase']))}; {number(said['behind'], 'session')} behind"
        if said["shippedAt"]:
            yield f"          complete at {minute(clean(said['shippedAt']))}"
        if said["followed"]:
            yield f"follows   {number(said['followed'], 'session')} of other machines ({size(said['followedBytes'])})"
    if answer["daemonHasOtherRules"]:
        yield terminal.paint(
            ALARM, "warning   the daemon ships by the rules that it was started with, until `sesamectl restart`"
        )
    for error in (answer["error"], said and (said["error"] or said["followError"])):
        if error:
            yield terminal.paint(ALARM, f"warning   {clean(error)}")
            break
    for one in answer["workstations"]:
        whose = "" if one["mine"] else f" of {clean(one['owner'])}"
        held = f"{number(one['sessions'], 'session')}, {number(one['messages'], 'message')}"
        yield f"machine   {clean(one['workstation'])}{whose}: {held}, heard of {minute(clean(one['seenAt']))}"


# -- fill


def _has_other_rules(paths: Paths, config: Config) -> bool:
    """Whether a daemon ships by other rules of what leaves than those of the configuration: it was started before they were changed."""
    running = progress.read_running(paths.data_dir)
    return running is not None and running.rules not in ("", Outgoing(config.hub).rules)


def _fill(arguments: Arguments, paths: Paths, config: Config) -> None:
    if not os.path.exists(paths.database):
        raise RefusedError("there is no index of this machine's sessions yet; run `sesamectl start`, then this again")
    identity = identify_here(paths.database, os.environ, config.workstation_id)
    let_visitors_in(paths.database)
    has_others = _has_other_rules(paths, config)
    if arguments.has("dry-run"):
        answer = checking.preview(paths.database, config.hub, identity.workstation)
        show({**answer, "daemonHasOtherRules": has_others}, _preview_lines, arguments)
        return
    if has_others:
        raise RefusedError(OTHER_RULES.format(file=paths.config_file))
    reporter = _Printer(os.path.join(paths.data_dir, f"{progress.FILE}.fill"), quiet=arguments.has("json"))
    with server.connect(config.hub) as connection:
        shipper = Shipper(paths.database, connection, identity, config.hub, Outgoing(config.hub), reporter)
        shipper.catch_up()
    said = reporter.said
    answer = {"messages": said.messages, "sessions": said.sessions, "rowsPerSecond": said.rows_per_second}
    show(answer, _fill_lines, arguments)


class _Printer(progress.Reporter):
    """Tells a person how far it is, instead of writing it into a file."""

    def __init__(self, path: str, *, quiet: bool) -> None:
        super().__init__(path)
        self._quiet = quiet or not sys.stderr.isatty()

    def write(self, *, at_once: bool = False) -> None:
        """Print it over what was printed before."""
        if not self._quiet and (at_once or self.said.messages):
            said = self.said
            text = f"{said.behind:,} sessions to go, {said.messages:,} messages shipped, {said.rows_per_second:,}/s"
            print(f"\r\033[K{text}", end="\n" if said.phase == "idle" else "", file=sys.stderr, flush=True)


def _fill_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    speed = f" ({int(answer['rowsPerSecond']):,} a second)" if answer["messages"] else ""
    yield f"the hub has everything; {number(answer['messages'], 'message')} were new there{speed}"


def _preview_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    for one in answer["projects"]:
        team = f", seen by the team {clean(one['team'])}" if one["team"] else ""
        held = f"{number(one['sessions'], 'session')}, {number(one['messages'], 'message')}"
        yield f"{terminal.paint(BOLD, clean(one['project']) or '(no directory)')}: {held}{team}"
    if answer["daemonHasOtherRules"]:
        yield terminal.paint(ALARM, "the daemon ships by the rules that it was started with, until `sesamectl restart`")
    denied = f", {answer['denied']:,} of them by hub.projects.deny" if answer["denied"] else ""
    yield terminal.paint(DIM, f"{number(answer['staying'], 'session')} would stay here{denied}")


# -- check


def _check(arguments: Arguments, paths: Paths, config: Config) -> int:
    identity = identify_here(paths.database, os.environ, config.workstation_id)
    if arguments.has("accept-id"):
        _confirm(
            f"Ship this index as workstation {identity.workstation} from now on, and remove what it shipped under another id?",
            arguments,
            "say --yes to have this index ship under its present id from now on",
        )
        with server.connect(config.hub) as connection, server.errors():
            server.check_schema(connection)
            Claim(connection, identity, single_user=config.hub.single_user).accept()
    found = [one._asdict() for one in checking.check(config.hub, identity)]
    show({"checks": found}, _check_lines, arguments)
    return int(any(one["level"] == "wrong" for one in found))


def _check_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    width = max(len(one["name"]) for one in answer["checks"])
    for one in answer["checks"]:
        level = clean(one["level"])
        painted = terminal.paint(ALARM, level) if level == "wrong" else level.ljust(5)
        yield f"{painted}  {clean(one['name']).ljust(width)}  {clean(one['text'])}"


# -- forget


def _forget(arguments: Arguments, paths: Paths, config: Config) -> None:
    identity = identify_here(paths.database, os.environ, config.workstation_id)
    wanted = arguments.values.get("workstation", identity.workstation)
    question = f"Remove all that you shipped from workstation {clean(wanted)} from the hub?"
    _confirm(question, arguments, "say --yes to remove what you shipped from the hub")
    with server.connect(config.hub) as connection, server.errors():
        server.check_schema(connection)
        removed = Claim(connection, identity, single_user=config.hub.single_user).forget(wanted)
    is_own = wanted == identity.workstation
    show({"workstation": wanted, "removed": removed, "shipsAgain": is_own}, _forget_lines, arguments)


def _forget_lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    yield f"{number(answer['removed'], 'session')} of workstation {clean(answer['workstation'])} were removed from the hub"
    if answer["shipsAgain"]:
        yield "What hub.projects.allow names is shipped again, unless you take that out of the configuration first."
