"""The words for how a Flow or a Step stands; plain enums, shared by results, errors and options."""

from enum import Enum


class FlowStatus(Enum):
    """How an execution stands [FLOW-6]; a terminal status never changes."""

    RUNNING = "RUNNING"
    """Open, whether or not a Step is active."""
    COMPLETED = "COMPLETED"
    """Closed by a completing decision."""
    FAILED = "FAILED"
    """Closed by force_fail, exhausted retries, a FAIL stop or a refused response."""
    CANCELED = "CANCELED"
    """Closed by a CANCEL stop."""
    TERMINATED = "TERMINATED"
    """Closed by a TERMINATE stop, or replaced by a start under ALLOW_TERMINATE_IF_RUNNING."""
    CONTINUED_AS_NEW = "CONTINUED_AS_NEW"
    """Of an earlier run only: the execution goes on in the run that continues it; never how an execution stands."""

    @property
    def is_terminal(self) -> bool:
        """Whether the execution is closed."""
        return self not in (FlowStatus.RUNNING, FlowStatus.CONTINUED_AS_NEW)


class FlowErrorType(Enum):
    """Why a Flow is FAILED [FLOW-9]."""

    STEP_DECISION_FAILED = "STEP_DECISION_FAILED"
    """A Step returned force_fail."""
    CLIENT_API_FAILED = "CLIENT_API_FAILED"
    """A client stopped the Flow with FAIL."""
    WORKER_API_FAILED = "WORKER_API_FAILED"
    """A Step had no attempt left and no recovery Step."""
    INVALID_USER_FLOW_CODE = "INVALID_USER_FLOW_CODE"
    """The server refused a handler's response as invalid."""
    FLOW_TIMEOUT = "FLOW_TIMEOUT"
    """The Flow's own timeout fired."""
    INTERNAL = "INTERNAL"
    """The server could not go on with the Flow."""


class StepOutcome(Enum):
    """How a Step execution ended [WAITAPI-3]."""

    COMPLETED = "COMPLETED"
    """Its decision was applied."""
    FAILED = "FAILED"
    """It had no attempt left and its recovery Step was scheduled."""
    CANCELED = "CANCELED"
    """It was dropped by another decision or the end of the Flow."""


class StopOutcome(Enum):
    """What a stop request did [STOP-2]."""

    APPLIED = "APPLIED"
    """The request closed the Flow."""
    ALREADY_CLOSED = "ALREADY_CLOSED"
    """The Flow had a terminal status before; it is unchanged."""


class SkipTimerOutcome(Enum):
    """What a request to skip a timer did [TIMER-9]."""

    APPLIED = "APPLIED"
    """The timer counts as fired now."""
    REMEMBERED = "REMEMBERED"
    """The Step execution does not wait yet; the timer is skipped as soon as it does."""
    ALREADY_FIRED = "ALREADY_FIRED"
    """The timer fired, or was skipped, before."""
