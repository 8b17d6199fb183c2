"""Import the files of a batch; when one cannot be imported, ask a human whether to retry or to skip it.

Shows a Step whose attempts are limited, and a recovery Step that waits for a message instead of giving up: the Flow
keeps its place in the batch for as long as the human needs, says meanwhile what is wrong, and `explain` says what it
waits for. Start a server (`dexd serve`), then `python -m examples.manual_intervention`.
"""

import uuid
from dataclasses import dataclass
from enum import StrEnum

from dexsdk import (
    AsyncClient,
    Attribute,
    Channel,
    Context,
    Flow,
    PersistenceSchema,
    RetryPolicy,
    RPCResult,
    Step,
    StepDecision,
    StepList,
    StepOptions,
    Wait,
    go_to,
    graceful_complete,
    rpc,
)
from examples.local_worker import run, serving


@dataclass(frozen=True)
class Batch:
    """The files that are still to be imported, and how many were imported and skipped."""

    files: list[str]
    imported: int = 0
    skipped: int = 0

    def after_import(self) -> "Batch":
        """Give the batch once its first file is imported."""
        return Batch(self.files[1:], self.imported + 1, self.skipped)

    def after_skip(self) -> "Batch":
        """Give the batch without its first file."""
        return Batch(self.files[1:], self.imported, self.skipped + 1)


class Verdict(StrEnum):
    """What the human decides about the first file."""

    RETRY = "RETRY"
    SKIP = "SKIP"


PROBLEM = Attribute("problem", str)
VERDICTS = Channel("verdicts", Verdict)


class Importer:
    """Stands for an import that fails on some files until somebody mends them."""

    def __init__(self, broken: set[str]) -> None:
        self.broken = broken
        self.tries = 0

    def load(self, file: str) -> None:
        """Import a file."""
        self.tries += 1
        if file in self.broken:
            raise ValueError(f"{file} has no header")


class ImportStep(Step[Batch]):
    """Import the first file; the human takes over after three attempts."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer

    def get_step_options(self) -> StepOptions:
        retry = RetryPolicy(initial_interval=0.1, maximum_attempts=3)
        return StepOptions(execute_retry=retry).on_execute_failure_proceed_to(AskStep)

    def execute(self, context: Context, batch: Batch) -> StepDecision:
        if not batch.files:
            return graceful_complete(f"{batch.imported} imported, {batch.skipped} skipped")
        self._importer.load(batch.files[0])
        return go_to(ImportStep, batch.after_import())


class AskStep(Step[Batch]):
    """Say what is wrong, and wait for a verdict."""

    def wait_for(self, context: Context, batch: Batch) -> Wait:
        failure = context.recovery_error
        PROBLEM.set(context, failure.detail if failure else "unknown")
        return Wait.until(VERDICTS.for_one())

    def execute(self, context: Context, batch: Batch) -> StepDecision:
        PROBLEM.delete(context)
        (verdict,) = VERDICTS.results(context)
        return go_to(ImportStep, batch if verdict is Verdict.RETRY else batch.after_skip())


class ImportFlow(Flow[Batch]):
    """Import file after file."""

    def __init__(self, importer: Importer | None = None) -> None:
        self._importer = importer or Importer({"c.csv"})

    def get_steps(self) -> StepList[Batch]:
        return StepList.start_step(ImportStep(self._importer)).other_steps(AskStep())

    def get_persistence_schema(self) -> PersistenceSchema:
        return PersistenceSchema.of(PROBLEM, VERDICTS)

    @rpc
    def problem(self, context: Context) -> RPCResult[str]:
        """Say what a human is asked to look at; empty when all goes well."""
        return RPCResult(PROBLEM.get(context, default=""))


async def explain(client: AsyncClient, flow_id: str) -> None:
    """Print why the Flow does not get on: the same as `dex flow explain`."""
    explanation = await client.explain(flow_id)
    for blocker in explanation.blockers:
        print(blocker.step_execution_id or "-", blocker.kind, blocker.text)


async def play(server: str) -> None:
    """Mend one of two broken files, and skip the other."""
    importer = Importer({"b.csv", "c.csv"})
    flow = ImportFlow(importer)
    async with serving(flow, server) as client:
        flow_id = f"import-{uuid.uuid4().hex[:8]}"
        await client.start_flow(ImportFlow, flow_id, Batch(["a.csv", "b.csv", "c.csv"]))
        await client.wait_for_attribute_equal(flow_id, PROBLEM, "b.csv has no header")
        await explain(client, flow_id)
        importer.broken.remove("b.csv")
        await client.publish(flow_id, VERDICTS, Verdict.RETRY)
        await client.wait_for_attribute_equal(flow_id, PROBLEM, "c.csv has no header")
        await client.publish(flow_id, VERDICTS, Verdict.SKIP)
        result = await client.wait_for_flow(flow_id)
        await explain(client, flow_id)
        print(flow_id, result.status.value, result.single_output(str))


if __name__ == "__main__":
    run(play, __doc__)
