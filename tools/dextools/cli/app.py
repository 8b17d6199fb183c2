"""The command tree of `dex`. Only this module knows which groups exist."""

import inspect
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from dextools.cli.batch_verbs import add_batch_verbs
from dextools.cli.channel_verbs import add_channel_verbs
from dextools.cli.flow_looks import add_look_verbs
from dextools.cli.flow_reads import add_read_verbs
from dextools.cli.flow_writes import add_attribute_verbs, add_write_verbs
from dextools.cli.health_verb import add_health_verb
from dextools.cli.invocation import group
from dextools.cli.log_exchange_verbs import add_exchange_verbs
from dextools.cli.log_insight_verbs import add_insight_verbs
from dextools.cli.log_verbs import add_log_verbs
from dextools.cli.queue_verbs import add_queues_verb
from dextools.cli.schedule_verbs import add_schedule_verbs
from dextools.cli.worker_verbs import add_worker_verbs


def build_app() -> typer.Typer:
    """Put the verbs together."""
    app = _group("Operate a dexd server, or look into its log offline.", (_VERSION,))
    flows = _group("Start, watch and steer Flows.")
    add_write_verbs(flows)
    add_read_verbs(flows)
    add_look_verbs(flows)
    attributes = _group("Read and write Attributes of a Flow.")
    add_attribute_verbs(attributes)
    flows.add_typer(attributes, name="attr")
    channels = _group("Look into the Channels of a Flow.")
    add_channel_verbs(channels)
    flows.add_typer(channels, name="channel")
    batches = _group("Do one thing to all Flows that a query finds.")
    add_batch_verbs(batches)
    flows.add_typer(batches, name="batch")
    app.add_typer(flows, name="flow")
    schedules = _group("Start Flows again and again: create, look at and drive schedules.")
    add_schedule_verbs(schedules)
    app.add_typer(schedules, name="schedule")
    log = _group("Look into a data directory offline; only rebuild and import write.")
    add_insight_verbs(log)
    add_log_verbs(log)
    add_exchange_verbs(log)
    app.add_typer(log, name="log")
    workers = _group("Look at connected workers, and take one out of service.")
    add_worker_verbs(workers)
    app.add_typer(workers, name="workers")
    add_queues_verb(app)
    add_health_verb(app)
    return app


def main() -> None:
    """Run the command line."""
    build_app()(prog_name="dex")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(version("dexd"))
        raise typer.Exit


_VERSION = inspect.Parameter(
    "version",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ],
)


def _group(help_text: str, own: Sequence[inspect.Parameter] = ()) -> typer.Typer:
    app = typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group(app, own)
    return app
