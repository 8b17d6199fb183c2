"""`dexd serve` that ends itself with SIGKILL at a named point of its commit path: run as a program by crash tests.

Composed from the same parts as the real server; the failpoint goes in through `run_server`, so that no switch for it
exists in production code. `during_append` is no point of the engine: the process dies up to a millisecond after a batch
was handed to the writer thread, that is, somewhere inside SQLite's transaction, write or fsync.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

from dexd.config import load_config
from dexd.engine.ports import AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND, BEFORE_APPEND
from dexd.errors import ListenError, exit_code_of
from dexd.log.errors import LogError
from dexd.observe.logs import LogFormat, LogLevel, configure_logs
from dexd.server import run_server

DURING_APPEND: Final = "during_append"

POINTS: Final = (BEFORE_APPEND, DURING_APPEND, AFTER_COMMIT_BEFORE_EFFECTS, AFTER_SEND)
"""Every named point; the first and the last two are the engine's."""

APPEND_DELAYS_S: Final = tuple(step / 10_000 for step in range(11))
"""From the hand-over to the writer thread to the kill; one append with its fsync takes about half a millisecond."""


class DeadlyFailpoint:
    """Kills the process at the n-th passage of a point."""

    def __init__(self, point: str, passage: int, end: Callable[[], object]) -> None:
        """Arm.

        Args:
            point: One of POINTS.
            passage: Which passage is the last thing to happen, from 1.
            end: Ends the process.
        """
        self._delay_s = APPEND_DELAYS_S[passage % len(APPEND_DELAYS_S)] if point == DURING_APPEND else None
        self._point = BEFORE_APPEND if point == DURING_APPEND else point
        self._left = passage
        self._end = end

    def __call__(self, point: str) -> None:
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0:
            if self._delay_s is None:
                self._end()
            else:
                threading.Thread(target=self._end_later, args=(self._delay_s,), daemon=True).start()

    def _end_later(self, delay_s: float) -> None:
        time.sleep(delay_s)
        self._end()


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
    failpoint = DeadlyFailpoint(options.at, options.passage, lambda: os.kill(os.getpid(), signal.SIGKILL))
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
