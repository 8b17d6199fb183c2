"""Progress bars: only for what takes longer than two seconds, and only where somebody watches [SURF-26]."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

PATIENCE_SECONDS = 2.0
"""How long nothing is shown."""


@contextmanager
def progress(description: str, total: int, patience: float = PATIENCE_SECONDS) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how many more are done."""
    bar = Progress(console=Console(file=sys.stderr), disable=not sys.stderr.isatty(), transient=True)
    task = bar.add_task(description, total=total)
    shows_at = time.monotonic() + patience
    is_shown = False

    def advance(count: int) -> None:
        nonlocal is_shown
        bar.advance(task, count)
        if not is_shown and time.monotonic() >= shows_at:
            bar.start()
            is_shown = True

    try:
        yield advance
    finally:
        if is_shown:
            bar.stop()
