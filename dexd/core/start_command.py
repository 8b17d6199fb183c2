"""The command that starts an execution; a part of `dexd.core.commands`, for clients as for schedules."""

import msgspec

from dexd.core.ids import FlowId, RequestId, RunId
from dexd.core.index_values import IndexWrite
from dexd.core.terms import FlowTerms
from dexd.core.values import IdReusePolicy, Standing, StepPlan


class StartFlow(msgspec.Struct, frozen=True, gc=False):
    """Start an execution. Reply: StartFlowAccepted."""

    flow_id: FlowId
    flow_type: str
    run_id: RunId
    """Minted by the shell; used only if a run really begins."""
    seed: int
    """Drawn by the shell; source of all later jitter of the run [RETRY-2]."""
    request_id: RequestId
    digest: bytes
    """Hash of Flow type, input and initial Attributes [START-3]."""
    start_step: StepPlan | None
    attributes: tuple[tuple[str, bytes], ...] = ()
    id_reuse_policy: IdReusePolicy = IdReusePolicy.DEFAULT
    standing: Standing | None = None
    """How its calls stand in queues; None: as everybody's [ROUTE-7]."""
    terms: FlowTerms | None = None
    indexed: tuple[IndexWrite, ...] = ()
    """Index values of the initial Attributes [ATTR-9]."""
