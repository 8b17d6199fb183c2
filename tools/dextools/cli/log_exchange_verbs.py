"""`dex log export` and `dex log import`: executions as JSON lines, out of one log and into another [SURF-23]."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import typer
from rich.text import Text

from dexd.blobs.local_store import LocalBlobReader, LocalBlobStore
from dexd.blobs.store import BlobMissingError
from dexd.codec.export_lines import ExportError, read_executions
from dexd.engine.exports import export_lines, runs_of_execution
from dexd.log.durable_file import write_durably
from dexd.log.errors import LogDamagedError
from dexd.log.event_log import EventLog, RunRow
from dextools.cli.errors import CommandError, ExitCode
from dextools.cli.invocation import Invocation, verb
from dextools.cli.log_verbs import DEFAULT_DATA_DIR, DataDir, RunName, found_run
from dextools.cli.progress import progress
from dextools.log_import import BlobIntake, FlowExistsError, import_executions
from dextools.offline_log import open_exclusively, open_offline
from dextools.terminal_text import cell

STDIN = Path("-")

BlobDir = Annotated[
    Path | None,
    typer.Option(
        help="Where large values are; `blobs` in the data directory if not given.", metavar="DIR", file_okay=False
    ),
]


def add_exchange_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "export")(export)
    verb(app, "import")(import_)


def export(
    call: Invocation,
    name: RunName,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    out: Annotated[
        Path | None, typer.Option(help="File to write; standard output if not given.", metavar="FILE", dir_okay=False)
    ] = None,
    only_run: Annotated[
        bool, typer.Option("--only-run", help="Not the whole execution, only the run that ID names.")
    ] = False,
    blob_dir: BlobDir = None,
) -> None:
    """Write an execution as JSON lines, with everything that an import needs."""
    with open_offline(data_dir) as log:
        run = found_run(log, name)
        rows = [run] if only_run else runs_of_execution(log, run.flow_id, run.ordinal)
        events = sum(_events_of(log, row) for row in rows)
        with progress("events", total=events) as advance:
            where = blob_dir or data_dir / "blobs"
            lines = export_lines(log, rows, LocalBlobReader(where), release=version("dexd"), exported_at=log.last_at)
            try:
                _write(_counted(lines, advance), out)
            except BlobMissingError as error:
                text = f"the large value {error} is not in {where}; --blob-dir names another place"
                raise CommandError(text, ExitCode.NOT_FOUND, code="BLOB_NOT_FOUND") from error
            except (LookupError, TypeError, ValueError, LogDamagedError) as error:
                # What a damaged log does to decoding and to the fold; `dex log verify` says where.
                raise CommandError(f"run {run.run_id} cannot be exported: {error!r}", ExitCode.FAILED) from error
    if out is not None:
        document = {
            "flow_id": run.flow_id,
            "ordinal": run.ordinal,
            "run_ids": [row.run_id for row in rows],
            "events": events,
            "file": str(out),
        }
        call.output.answer(document, cell(f"{len(rows)} runs with {events} events written to {out}"))


def import_(
    call: Invocation,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help='Exports; "-" is standard input.', show_default=False)
    ],
    data_dir: DataDir = DEFAULT_DATA_DIR,
    blob_dir: BlobDir = None,
) -> None:
    """Put exported executions into the log of a data directory, which is made if there is none.

    Needs the data directory for itself and is refused while a server runs on it, or when a Flow ID is there already.
    """
    with ExitStack() as opened:
        sources = [sys.stdin.buffer if file == STDIN else opened.enter_context(_open(file)) for file in files]
        log = opened.enter_context(open_exclusively(data_dir, is_new_allowed=True))
        blobs = LocalBlobStore(blob_dir or data_dir / "blobs")
        intake = BlobIntake(blobs, time.time_ns() // 1_000_000)
        opened.callback(intake.drop)
        advance = opened.enter_context(progress("bytes", total=sum(map(_size_of, files))))
        try:
            executions = [
                execution
                for source in sources
                for execution in read_executions(_measured(source, advance), intake.take)
            ]
            imported = import_executions(log, blobs, executions)
        except ExportError as error:
            raise CommandError(f"not imported: {error}", ExitCode.USAGE, code="INVALID_EXPORT") from error
        except FlowExistsError as error:
            raise CommandError(f"not imported: {error}", ExitCode.CONFLICT, code="FLOW_EXISTS") from error
    document = {"imported": [msgspec.structs.asdict(flow) for flow in imported]}
    lines = [f"{flow.flow_id}: {len(flow.run_ids)} runs with {flow.events} events imported" for flow in imported]
    call.output.answer(document, Text("\n").join(map(cell, lines)) if lines else cell("nothing to import"))


def _events_of(log: EventLog, row: RunRow) -> int:
    """How many events a run has."""
    found = log.run_by_id(row.run_id)
    if found is None:
        return 0
    return found.events[-1].version if found.events else found.snapshot.version if found.snapshot else 0


def _open(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except FileNotFoundError as error:
        raise CommandError(f"there is no file {file}", ExitCode.NOT_FOUND, code="FILE_NOT_FOUND") from error


def _size_of(file: Path) -> int:
    return 0 if file == STDIN else file.stat().st_size


def _measured(lines: Iterable[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in lines:
        yield line
        advance(len(line))


def _counted(lines: Iterator[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    for line in lines:
        yield line
        advance(1)


def _write(lines: Iterator[bytes], out: Path | None) -> None:
    if out is not None:
        write_durably(out, lines)
        return
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
