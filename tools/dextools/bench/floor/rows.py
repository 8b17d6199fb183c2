"""The rows of one chain Flow, commit by commit, as the bare pipeline would write them."""

from dexpb.v1 import frames
from dextools.bench.pipeline.facts import Row, Scribe

STEP_TYPE = "ChainStep"

GO_TO = frames.Decision(frames.DECISION_GO_TO)
COMPLETE = frames.Decision(frames.DECISION_GRACEFUL_COMPLETE, output=b"true")


def commits_of_chain(scribe: Scribe, number: int, steps: int) -> list[list[Row]]:
    """One list of rows for the start and one for each Step's result."""
    flow, rows = scribe.start(f"chain-{number}", "ChainFlow", f"{number:032x}")
    assign = scribe.dispatch(flow, STEP_TYPE, b"%d" % (steps - 1), "", rows)
    commits = [rows]
    for left in range(steps - 2, -1, -1):
        rows = scribe.complete(flow, assign.token, GO_TO)
        assign = scribe.dispatch(flow, STEP_TYPE, b"%d" % left, assign.token.call, rows)
        commits.append(rows)
    rows = scribe.complete(flow, assign.token, COMPLETE)
    scribe.close(flow, rows)
    commits.append(rows)
    return commits
