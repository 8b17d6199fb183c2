"""Freezes the log of this release: `python -m tests.histories.record` makes `tests/histories/<version>/`.

A recording is made once and never changed; CONTRIBUTING.md says when.
"""

import asyncio
import hashlib
import json
import sys
from collections import Counter
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from dexd.core.events import EVENT_TYPES
from dexd.core.streams import STREAM_EVENT_TYPES
from dexd.engine.parking_lot import Bounds
from dexd.engine.projections import refresh_projections
from dexd.log.event_log import EventLog
from dexd.log.sqlite_log import SqliteLog
from tests.histories.act import Act
from tests.histories.flows import ACTS
from tests.histories.frozen import ROOT, freeze, seen
from tests.unit.engine.rig import Rig

SNAPSHOT_EVERY_EVENTS = 5
"""Often, so that most runs have one with events behind it."""

MEMORY = Bounds(runs_max=8)
"""So small that some of the runs that wait at the end are parked, and others are not."""


async def play(log: SqliteLog) -> None:
    """Play every act; a kill and a restart before the last one, a kill after it."""
    refresh_projections(log)
    rig = Rig(log, snapshot_every_events=SNAPSHOT_EVERY_EVENTS)
    for act in ACTS[:-1]:
        scene = Act(rig)
        await act(scene)
        await scene.end()
    restarted = Rig(log, memory=MEMORY, snapshot_every_events=SNAPSHOT_EVERY_EVENTS)
    restarted.clock.at = rig.clock.at + 60_000
    await ACTS[-1](Act(restarted))
    assert not rig.fatal + restarted.fatal


def record(folder: Path) -> None:
    """Write a recording into an empty folder."""
    with TemporaryDirectory() as scratch:
        database = Path(scratch) / "log.db"
        with closing(SqliteLog.open(database)) as log:
            asyncio.run(play(log))
            shown = seen(log)
        statements = freeze(database).encode()
    (folder / "log.sql").write_bytes(statements)
    document = {"release": version("dexd"), "sha256": hashlib.sha256(statements).hexdigest(), **shown}
    text = json.dumps(document, indent=1, ensure_ascii=True)
    (folder / "expected.json").write_text(f"{text}\n", encoding="utf-8")


def missing_kinds(log: EventLog) -> list[str]:
    """Kinds of events that a log does not show."""
    shown = Counter(event.type for event in log.read_all(1, sys.maxsize))
    kinds = (*EVENT_TYPES, *STREAM_EVENT_TYPES)
    return [event_type.__name__ for event_type in kinds if not shown[event_type.__name__]]


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else version("dexd")
    folder = ROOT / name
    if folder.exists():
        sys.exit(f"{folder} is frozen; give another name: python -m tests.histories.record NAME")
    with TemporaryDirectory() as scratch, closing(SqliteLog.open(Path(scratch) / "log.db")) as log:
        asyncio.run(play(log))
        if missing := missing_kinds(log):
            sys.exit(f"add Flows to tests/histories/flows.py that show {', '.join(missing)}")
    folder.mkdir()
    record(folder)


if __name__ == "__main__":
    main()
