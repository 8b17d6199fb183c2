"""`dexd serve` that ends itself with SIGKILL at a named point of its commit path: run as a program by crash tests.

Composed from the same parts as the real server; the failpoint goes in through `run_server`, so that no switch for it
exists in production code. Two points are added to the engine's: `during_append` dies somewhere inside SQLite's
transaction, write or fsync; `stalled_append` holds an append up and lets everything else go on for a while before it
dies, so that whatever is revealed too early does reach somebody [INV-2].
"""

import argparse
import os
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Final, NoReturn

from dexd.config import load_config
from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from dexd.errors import ListenError, exit_code_of
from dexd.log.directory import log_path
from dexd.log.errors import LogError
from dexd.observe.logs import LogFormat, LogLevel, configure_logs
from dexd.server import run_server

DURING_APPEND: Final = "during_append"
STALLED_APPEND: Final = "stalled_append"

POINTS: Final = (BEFORE_APPEND, STALLED_APPEND, DURING_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND)
"""Every named point."""

STALL_S: Final = 0.05
"""Long enough for a reply to reach its client, and well below the time for which SQLite waits for a lock."""

APPEND_DELAYS_S: Final = tuple(step / 10_000 for step in range(11))
"""From the hand-over to the writer thread to the kill; one append with its fsync takes about half a millisecond."""

SEND_DELAY_S: Final = 0.002
"""From handing over to the transport to the kill, so that the bytes are on their way."""


class DeadlyFailpoint:
    """Kills the process at the n-th passage of a point."""

    def __init__(self, point: str, passage: int, log: Path) -> None:
        """Arm.

        Args:
            point: One of POINTS.
            passage: Which passage is the last one, from 1.
            log: The log's file, to hold an append up.
        """
        self._point = point
        self._engine_point = BEFORE_APPEND if point in (DURING_APPEND, STALLED_APPEND) else point
        self._left = passage
        self._append_delay_s = APPEND_DELAYS_S[passage % len(APPEND_DELAYS_S)]
        self._log = log
        self._lock: sqlite3.Connection | None = None

    def __call__(self, point: str) -> None:
        if point != self._engine_point:
            return
        self._left -= 1
        if self._left == 0:
            self._reached()

    def _reached(self) -> None:
        if self._point == STALLED_APPEND:
            self._lock = sqlite3.connect(self._log, isolation_level=None)
            self._lock.execute("BEGIN IMMEDIATE")
            end_later(STALL_S)
        elif self._point == DURING_APPEND:
            end_later(self._append_delay_s)
        elif self._point == AFTER_SEND:
            end_later(SEND_DELAY_S)
        else:
            end()


def end() -> None:
    """Die at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def end_later(delay_s: float) -> None:
    """Die in a moment, from a thread of its own; the event loop goes on until then."""

    def wait_and_end() -> None:
        time.sleep(delay_s)
        end()

    threading.Thread(target=wait_and_end, daemon=True).start()


def main() -> NoReturn:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", choices=POINTS, required=True)
    parser.add_argument("--passage", type=int, required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--log-format", type=LogFormat, default=LogFormat.JSON)
    parser.add_argument("--set", dest="assignments", action="append", default=[])
    options = parser.parse_args()
    configure_logs(options.log_format, LogLevel.INFO)
    flags = {"store.data_dir": options.data_dir, "api.listen": options.listen}
    config = load_config(None, {}, options.assignments, flags).config
    failpoint = DeadlyFailpoint(options.at, options.passage, log_path(config.store.data_dir))
    try:
        run_server(config, announce=_announce, failpoint=failpoint)
    except (ListenError, LogError, OSError) as error:
        sys.exit(exit_code_of(error))
    sys.exit(0)


def _announce(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
