"""A Flow that asks a human."""

from datetime import timedelta

import pytest

from dexsdk.testing import start_env_sync
from examples.manual_intervention import PROBLEM, VERDICTS, Batch, Importer, ImportFlow, Verdict

BATCH = Batch(["a.csv", "b.csv", "c.csv"])


@pytest.mark.parametrize(
    ("verdict", "ending"), [(Verdict.RETRY, "3 imported, 0 skipped"), (Verdict.SKIP, "2 imported, 1 skipped")]
)
def test_a_file_that_keeps_failing_waits_for_a_verdict(verdict: Verdict, ending: str) -> None:
    """[OPT-4] the recovery Step gets the same batch and the error, and waits for a week if it must."""
    importer = Importer({"b.csv"})
    flow = ImportFlow(importer)
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(ImportFlow, "import", BATCH)
        assert env.client.invoke_rpc(flow.problem, "import") == ""
        env.advance(timedelta(weeks=1))
        assert env.client.invoke_rpc(flow.problem, "import") == "b.csv has no header"
        assert importer.tries == 1 + 3
        importer.broken.clear()
        env.client.publish("import", VERDICTS, verdict)
        assert env.client.wait_for_flow("import", timeout=10).single_output(str) == ending
        assert env.client.get_attribute("import", PROBLEM) is None


def test_explain_says_what_the_flow_waits_for() -> None:
    """[HIST-6] between two attempts the retry, then the verdict of the human, and who it was that asked for it."""
    flow = ImportFlow(Importer({"a.csv"}))
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(ImportFlow, "import", Batch(["a.csv"]))
        (retry,) = env.client.explain("import").blockers
        assert (retry.step_execution_id, retry.kind) == ("ImportStep-1", "RETRY")
        assert retry.text.endswith("after ValueError: a.csv has no header")
        env.advance(1)
        (verdict,) = env.client.explain("import").blockers
        assert (verdict.step_execution_id, verdict.kind) == ("AskStep-1", "CHANNEL")
        assert verdict.text == "waiting on Channel 'verdicts' with 0 of 1 messages"
        (step,) = env.client.get_flow_state("import").steps
        assert step.from_step == "ImportStep-1"
        assert step.recovery_error is not None
        assert step.recovery_error.detail == "a.csv has no header"


def test_a_retry_that_fails_again_asks_again() -> None:
    """[RETRY-1] the retried Step is a new execution with attempts of its own."""
    importer = Importer({"a.csv"})
    flow = ImportFlow(importer)
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(ImportFlow, "import", Batch(["a.csv"]))
        for asked in range(1, 4):
            env.advance(1)
            assert env.client.invoke_rpc(flow.problem, "import") == "a.csv has no header"
            assert importer.tries == 3 * asked
            env.client.publish("import", VERDICTS, Verdict.RETRY)
        env.advance(1)
        env.client.publish("import", VERDICTS, Verdict.SKIP)
        assert env.client.wait_for_flow("import", timeout=10).single_output(str) == "0 imported, 1 skipped"
