"""Every exception that users meet, and the one table from a refused call to its class [ERR-1].

Remote refusals derive from DexServiceError; local ones do not. Rejections found before anything is sent are ValueErrors
[GEN-2]. No other module decides which class a status becomes.
"""

from collections.abc import Mapping
from datetime import timedelta

from dexsdk._durations import to_duration_ms
from dexsdk.status import FlowStatus

# ---- raised locally ---------------------------------------------------------------------------------------------


class FlowDefinitionError(ValueError):
    """A Flow is defined wrongly, or code uses a definition in a way its declaration does not allow [FLOW-4, TYPE-2].

    ``faults`` lists everything found at once [REG-1].
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__(faults[0] if len(faults) == 1 else f"{len(faults)} faults:\n- " + "\n- ".join(faults))


class InvalidStepResultError(ValueError):
    """A handler returned something else than its Wait, StepDecision or RPCResult [STEP-7]."""


class ValueMappingError(ValueError):
    """A value cannot be encoded, or stored bytes do not fit the annotation [VAL-5]."""

    def __init__(self, place: str, path: str, reason: str) -> None:
        self.place = place
        """Flow type, Step or RPC, and method, as far as known where the value was taken."""
        self.path = path
        """Where inside the value, e.g. ``$.lines[3].qty``."""
        self.reason = reason
        super().__init__(f"{place}: {path}: {reason}")


class NonRetryableError(Exception):
    """Raised by a handler to exhaust its retries at once [RETRY-5]."""


class RetryAfter(Exception):  # noqa: N818 -- the name is part of the surface [SDK-1]
    """Raised by a handler to choose the delay before its next attempt [RETRY-6].

    The delay is not cut by the policy's cap and extends neither attempts nor total duration.
    """

    def __init__(self, seconds: float | timedelta, cause: BaseException | None = None) -> None:
        """Take the delay.

        Args:
            seconds: Delay above 0, up to 100 years.
            cause: The failure to report; without it the failure is this exception itself.
        """
        self.delay_ms = to_duration_ms(seconds, "RetryAfter delay")
        if self.delay_ms == 0:
            raise ValueError("RetryAfter delay must be above 0")
        self.cause = cause
        super().__init__(f"retry after {self.delay_ms} ms")


class PullRegistrationError(Exception):
    """The server refused to register a worker's queue for good [READY-3]."""

    def __init__(self, queue: str, code: str, details: str) -> None:
        self.queue = queue
        self.code = code
        """gRPC status code name."""
        self.details = details
        super().__init__(f"queue {queue!r} was rejected with {code}: {details}")


# ---- refused by the server --------------------------------------------------------------------------------------


class DexServiceError(Exception):
    """The server refused a call or could not answer it.

    ``UNAVAILABLE`` means "try again later" [ERR-2].
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str,
        sub_status: str = "",
        operation: str = "",
        flow_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.detail = detail
        self.code = code
        """gRPC status code name."""
        self.sub_status = sub_status
        """Stable UPPER_SNAKE reason, ``""`` when the server gave none."""
        self.operation = operation
        self.flow_id = flow_id
        self.metadata: Mapping[str, str] = dict(metadata or {})
        """Facts behind the refusal; the properties of subclasses read them."""
        super().__init__(detail)

    def __str__(self) -> str:
        reason = f"{self.code}/{self.sub_status}" if self.sub_status else self.code
        subject = f" of Flow {self.flow_id!r}" if self.flow_id is not None else ""
        prefix = f"{self.operation}{subject}: " if self.operation else ""
        return f"{prefix}{self.detail} ({reason})"


class FlowAlreadyStartedError(DexServiceError):
    """The reuse policy refused the start [START-5]."""

    @property
    def run_id(self) -> str:
        """The existing run."""
        return self.metadata.get("run_id", "")

    @property
    def status(self) -> FlowStatus:
        """The existing execution's status."""
        return FlowStatus(self.metadata.get("status", FlowStatus.RUNNING.value))


class RequestConflictError(DexServiceError):
    """The request ID was used before with different content [START-3, RPC-12]."""


class FlowNotActiveError(DexServiceError):
    """The call needs an active Flow and the Flow is closed, or ``run_id`` is not its current run."""


class FlowNotFoundError(FlowNotActiveError):
    """The Flow ID is unknown or its executions are deleted."""


class WorkerInvocationError(DexServiceError):
    """The RPC handler failed; none of its effects were applied [RPC-3]."""

    @property
    def worker_code(self) -> str:
        """Stable code of how the call failed on the worker."""
        return self.metadata.get("worker_code", "")

    @property
    def worker_error_type(self) -> str:
        """Class name of the handler's exception."""
        return self.metadata.get("worker_error_type", "")

    @property
    def worker_error_detail(self) -> str:
        """Text of the handler's exception."""
        return self.metadata.get("worker_error_detail", "")

    @property
    def worker_stack(self) -> str:
        """Stack of the handler's exception."""
        return self.metadata.get("worker_stack", "")


class NoWorkerAvailableError(DexServiceError):
    """No Worker took the RPC within the dispatch wait [ROUTE-4, RPC-8]."""


class RpcLockConflictError(DexServiceError):
    """An Attribute that the RPC locks is locked by another call; the handler was not called [LOCK-4]."""


class ChannelMessageNotFoundError(DexServiceError):
    """The Channel has no pending message of that ID [CHAN-8, CHAN-9]."""


class LongPollTimeoutError(DexServiceError):
    """A client wait ran out; nothing changed in the Flow [WAITAPI-1]."""


class InvalidQueryError(DexServiceError):
    """The text is no search query, or the page token is not one of it [SEARCH-6]."""

    @property
    def position(self) -> int:
        """Where it is wrong, in code points from 0."""
        return int(self.metadata.get("position", "0"))


class ValueTooLargeError(DexServiceError, ValueError):
    """A value, frame or count exceeds a limit [LIM-3]; also raised locally, before anything is sent."""

    @classmethod
    def of(cls, what: str, where: str, size: int, limit: int) -> "ValueTooLargeError":
        """Build the local form; all four facts are in the text."""
        return cls(
            f"{what} in {where} has size {size}, the limit is {limit}",
            code="RESOURCE_EXHAUSTED",
            sub_status="VALUE_TOO_LARGE",
            metadata={"what": what, "where": where, "size": str(size), "limit": str(limit)},
        )

    @property
    def what(self) -> str:
        """What is too large."""
        return self.metadata.get("what", "")

    @property
    def size(self) -> int:
        """Its size, in the unit of the limit."""
        return int(self.metadata.get("size", "0"))

    @property
    def limit(self) -> int:
        """The limit."""
        return int(self.metadata.get("limit", "0"))


class ScheduleNotFoundError(DexServiceError):
    """There is no schedule of that ID, or it was deleted [SCHED-1]."""

    @property
    def schedule_id(self) -> str:
        """The ID."""
        return self.metadata.get("schedule_id", "")


class ScheduleAlreadyExistsError(DexServiceError):
    """Another request created a schedule of that ID [SCHED-1]."""

    @property
    def schedule_id(self) -> str:
        """The ID."""
        return self.metadata.get("schedule_id", "")


_CLASS_BY_SUB_STATUS: Mapping[str, type[DexServiceError]] = {
    "FLOW_ALREADY_STARTED": FlowAlreadyStartedError,
    "REQUEST_CONFLICT": RequestConflictError,
    "FLOW_NOT_ACTIVE": FlowNotActiveError,
    "FLOW_NOT_FOUND": FlowNotFoundError,
    "WORKER_API_ERROR": WorkerInvocationError,
    "NO_WORKER_AVAILABLE": NoWorkerAvailableError,
    "RPC_LOCK_CONFLICT": RpcLockConflictError,
    "CHANNEL_MESSAGE_NOT_FOUND": ChannelMessageNotFoundError,
    "LONG_POLL_TIMEOUT": LongPollTimeoutError,
    "VALUE_TOO_LARGE": ValueTooLargeError,
    "SCHEDULE_NOT_FOUND": ScheduleNotFoundError,
    "SCHEDULE_ALREADY_EXISTS": ScheduleAlreadyExistsError,
    "INVALID_QUERY": InvalidQueryError,
}
"""Every stable reason that has a class of its own; all others are plain DexServiceErrors."""


def error_from_status(
    code: str, sub_status: str, detail: str, metadata: Mapping[str, str], operation: str, flow_id: str | None
) -> DexServiceError:
    """Give the exception for a refused call [ERR-1]; total, whatever the server sends.

    Args:
        code: gRPC status code name.
        sub_status: Reason of the status's ErrorInfo, ``""`` without one.
        detail: Message of the status.
        metadata: Metadata of the ErrorInfo.
        operation: Name of the client call.
        flow_id: The Flow the call was about, if it was about one.
    """
    error_class = _CLASS_BY_SUB_STATUS.get(sub_status, DexServiceError)
    return error_class(
        detail, code=code, sub_status=sub_status, operation=operation, flow_id=flow_id, metadata=metadata
    )
