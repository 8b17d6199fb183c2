"""What history says of a hand-over: where the call went, how it was routed, and who did not take it [ROUTE-9]."""

from dexd.core.config import DECLINED_OFFERS_MAX
from dexd.core.events import StepDispatched
from dexd.core.flow.state import StepExecution
from dexd.core.matching.calls import SHARED, Call
from dexd.core.matching.matcher import Matcher
from dexd.core.matching.sessions import Worker
from dexd.core.values import DeclinedOffer


def dispatched(call: Call, step: StepExecution, worker: Worker, matcher: Matcher, *, now: int) -> StepDispatched:
    """The event of a Step's hand-over that happens now."""
    # Whoever went straight to the sticky worker passed nobody over.
    is_sticky = call.stage is not SHARED
    declined, declined_more = _declined(call, matcher) if call.declined or not is_sticky else ((), 0)
    return StepDispatched(
        step.step_execution_id,
        step.method,
        step.attempt,
        step.delivery + 1,
        worker.worker_id,
        worker.incarnation,
        is_sticky,
        now - call.enqueued_at,
        call.method_deadline,
        declined,
        declined_more,
    )


def _declined(call: Call, matcher: Matcher) -> tuple[tuple[DeclinedOffer, ...], int]:
    """Offers that were declined, then workers passed over because their Hello lacks the name [ROUTE-5]."""
    lacking = matcher.workers_lacking(call) if call.stage is SHARED else ()
    skipped = [
        DeclinedOffer(worker.worker_id, "UNKNOWN_STEP")
        for worker in lacking
        if worker.has_streams() and worker.worker_id not in call.excluded
    ]
    if not (skipped or call.declined):
        return (), 0
    declined = (*call.declined, *skipped)
    return declined[:DECLINED_OFFERS_MAX], call.declined_more + len(declined[DECLINED_OFFERS_MAX:])
