"""The command `sesamed`: parses flags, runs the daemon, turns errors into exit codes."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import msgspec

from sesamed import __version__, daemon, logs, paths
from sesamed.config import digest_settings, load
from sesamed.errors import ConfigError, LockedError, SchemaTooNewError, SesameError, is_of_memory
from sesamed.manager_report import Notifier
from sesamed.sources import SOURCES

EX_TEMPFAIL = 75  # another instance
EX_CONFIG = 78  # configuration or schema
EX_FAILED = 1

EPILOG = """
Runs in the foreground and logs to standard error. Usually `sesamectl` or a service manager starts it.
Configuration (optional): ~/.config/sesame/config.jsonc, or in SESAME_CONFIG_DIR.
Exit codes: 0 stopped, 75 another instance is running, 78 invalid configuration or an index of a newer version.

example:  sesamed --watch=polling --log-level debug
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon; returns the exit code."""
    flags = _parser().parse_args(arguments)
    _open_standard_descriptors()
    logs.configure(flags.log_level, os.environ)
    try:
        place = paths.find(os.environ)
        if not flags.check:
            logs.keep_own_log(place.data_dir, os.environ)
        config = load(place.config_file, os.environ, SOURCES.keys())
        settings_digest = digest_settings(config)
        if flags.watch is not None:
            config = msgspec.structs.replace(config, watch=flags.watch)
        run = daemon.check if flags.check else daemon.run
        run(daemon.Setting(place, config, os.environ, settings_digest))
    except LockedError as error:
        return _exit_with(error, 0 if flags.give_up_quietly else EX_TEMPFAIL)
    except (ConfigError, SchemaTooNewError) as error:
        return _exit_with(error, 0 if flags.give_up_quietly else EX_CONFIG)
    except SesameError as error:
        return _exit_with(error, EX_CONFIG if flags.check else EX_FAILED)
    except Exception as error:
        if not is_of_memory(error):
            raise
        _exit_with(SesameError("not enough memory; raise its limit (ulimit -v) or free some"), EX_FAILED)
        sys.stderr.flush()
        os._exit(EX_FAILED)  # without memory for a thread the interpreter may hang at its end
    return 0


def _open_standard_descriptors() -> None:
    """Put /dev/null where standard input, output or error were closed: the index would get their numbers, and messages with them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout, sys.stderr = sys.stdout or _discard(), sys.stderr or _discard()


def _discard() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # until the process ends


def _exit_with(error: SesameError, code: int) -> int:
    print(f"sesamed: {error.message}", file=sys.stderr)
    Notifier(os.environ.get("NOTIFY_SOCKET")).status(f"failed: {error.message}")  # for clients that ask the manager
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sesamed",
        description="Indexes the sessions of coding agents as they are written, and answers searches over a Unix socket.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sesamed {__version__}")
    parser.add_argument("--watch", choices=("events", "polling", "off"), help="how to notice changes (default: events)")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info", help="default: info"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="start nothing; exit with 78 and the reason if the daemon could not start with this configuration and index",
    )
    parser.add_argument(
        "--give-up-quietly",
        action="store_true",
        help="exit with 0 instead of 75 and 78, where a restart would not help (for launchd, which restarts after any other code)",
    )
    return parser
