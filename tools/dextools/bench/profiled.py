"""Runs a module under a sampling profiler: ``OUT MODULE ARGUMENTS...`` on the command line.

Every two milliseconds of processor time the stacks of all threads are counted. When the process ends, OUT gets the
functions in which it was (*self*) and which were on its stack (*total*), as shares of all samples of their thread.
Only for finding out where time goes: a profiled run is slower and its figures are not comparable.
"""

import atexit
import runpy
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.002

FUNCTIONS_MAX = 100
"""Rows of each list in the report."""


class Sampler:
    """Counts functions by thread. Waiting threads count too: their top row tells how idle they are."""

    def __init__(self) -> None:
        self._samples: Counter[str] = Counter()
        self._self: Counter[tuple[str, str]] = Counter()
        self._total: Counter[tuple[str, str]] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._on_tick)
        # System calls that the signal interrupts go on, so that the program behaves as without it.
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _on_tick(self, _signal: int, frame: FrameType | None) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, top in sys._current_frames().items():  # noqa: SLF001  the documented way to see other threads
            is_this = ident == threading.get_ident()
            self._count(names.get(ident, "?"), frame if is_this else top)

    def _count(self, thread: str, frame: FrameType | None) -> None:
        self._samples[thread] += 1
        if frame is not None:
            self._self[thread, _name(frame)] += 1
        on_stack = set()
        while frame is not None:
            on_stack.add((thread, _name(frame)))
            frame = frame.f_back
        self._total.update(on_stack)

    def report(self) -> str:
        lines = []
        for thread, count in self._samples.most_common():
            for title, counter in (("self", self._self), ("total", self._total)):
                lines += [f"== {thread}: {title}, {count} samples"]
                ranked = ((found, name) for (of, name), found in counter.most_common() if of == thread)
                lines += [f"{found / count:7.1%}  {name}" for found, name in list(ranked)[:FUNCTIONS_MAX]]
        return "\n".join(lines) + "\n"


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-3:])}:{code.co_qualname}"


def main() -> None:
    out, module, *arguments = sys.argv[1:]
    sampler = Sampler()

    def finish() -> None:
        sampler.stop()
        Path(out).write_text(sampler.report())

    atexit.register(finish)
    # A program without a handler of its own ends as if by itself, so that the report is written.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sampler.start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
