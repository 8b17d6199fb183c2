"""Opens the log of a killed server, and checks the invariants on what a restart would find [FLOW-11, INV-3..6].

Nothing is written; the next server starts on the very same bytes.
"""

from pathlib import Path

from dexd.core.commands import BeginServing
from dexd.core.config import KernelConfig
from dexd.core.flow.invariants import history_violations
from dexd.core.invariants import violations
from dexd.engine.recovery import rebuild_kernel
from dexd.log.directory import log_path
from dexd.log.sqlite_reader import OfflineLog
from dextools.log_inspection import listed_runs, recorded_events


def recovery_faults(data_dir: Path) -> list[str]:
    """What is wrong with the open runs as the next server will recover them: above all, one that nothing wakes up."""
    with OfflineLog(log_path(data_dir)) as log:
        kernel = rebuild_kernel(log, KernelConfig())
        now = log.last_at
        kernel.handle(BeginServing(), now=now)
        return violations(kernel, now=now)


def history_faults(data_dir: Path) -> list[str]:
    """What is wrong with the history of any run, from its first event on."""
    with OfflineLog(log_path(data_dir)) as log:
        return [
            fault for run in listed_runs(log) for fault in history_violations([*recorded_events(log, run.stream_id)])
        ]
