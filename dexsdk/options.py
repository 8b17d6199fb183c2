"""Frozen option types that users pass along; each is valid once it exists."""

import builtins
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dexpb.v1 import frames
from dexsdk._durations import Duration, optional_duration_ms, to_duration_ms
from dexsdk._names import check_name
from dexsdk.attribute import AnyAttribute, Attribute, AttributeLock, AttributeMap, key_of
from dexsdk.flow_config import FlowConfig, StepDurability

if TYPE_CHECKING:  # A Step has options and options name a recovery Step; only the types refer to each other.
    from dexsdk.step import Step

T = TypeVar("T")

_COUNT_MAX = 2**63 - 1
"""Counts travel as int64."""


PRIORITY_MIN, PRIORITY_DEFAULT, PRIORITY_MAX = 1, 3, 5
"""Priorities of calls that wait for a worker; 1 is served first."""


class WaitForFailurePolicy(Enum):
    """What happens when wait_for has no attempt left [OPT-3]."""

    FAIL_FLOW = "FAIL_FLOW"
    """The Flow fails with WORKER_API_FAILED."""
    PROCEED = "PROCEED"
    """execute of the same execution runs and sees the failure."""


class IdReusePolicy(Enum):
    """Whether a start may reuse a Flow ID [START-4]."""

    DEFAULT = "DEFAULT"
    """The same as ALLOW_IF_NOT_RUNNING."""
    ALLOW_IF_PREVIOUS_FAILED = "ALLOW_IF_PREVIOUS_FAILED"
    """Start only after FAILED, CANCELED or TERMINATED."""
    ALLOW_IF_NOT_RUNNING = "ALLOW_IF_NOT_RUNNING"
    """Start unless an execution is active."""
    DISALLOW = "DISALLOW"
    """Start only if no execution is retained."""
    ALLOW_TERMINATE_IF_RUNNING = "ALLOW_TERMINATE_IF_RUNNING"
    """Terminate an active execution and start, in one commit."""


class FlowTimeoutPolicy(Enum):
    """What the end of a Flow's time does [TIME-2]."""

    DEFAULT = "DEFAULT"
    """HANDLER if the Flow overrides ``handle_timeout``, else FAIL."""
    FAIL = "FAIL"
    """FAILED with FLOW_TIMEOUT; a Flow retry may follow."""
    CANCEL = "CANCEL"
    """CANCELED, never retried."""
    HANDLER = "HANDLER"
    """``handle_timeout`` decides [TIME-3]."""


class StopType(Enum):
    """How a stop ends the Flow [STOP-1]."""

    CANCEL = "CANCEL"
    """CANCELED; running handlers get a grace to clean up."""
    FAIL = "FAIL"
    """FAILED with CLIENT_API_FAILED and the reason; same grace."""
    TERMINATE = "TERMINATE"
    """TERMINATED without grace."""


@dataclass(frozen=True)
class RetryPolicy:
    """How a failed attempt is repeated [RETRY-1..4]; attempts are 1-based and include the first."""

    initial_interval: Duration = timedelta(seconds=1)
    """Delay after the first failed attempt, above 0."""
    backoff_coefficient: float = 2.0
    """Factor from one delay to the next, at least 1."""
    maximum_interval: Duration | None = None
    """Cap of the delay; unset, it is the larger of 100 s and the initial interval."""
    maximum_attempts: int = 0
    """0 means unlimited."""
    total_duration: Duration | None = None
    """From the first attempt's hand-over to the latest start of another attempt; None means unlimited."""
    jitter: float = 0.0
    """Share of the delay, 0 to 1, that is randomly taken off."""

    def __post_init__(self) -> None:
        self.to_frame()

    def to_frame(self) -> frames.RetryPolicy:
        """Give the policy as it travels.

        Raises:
            ValueError: a field is out of its range [RETRY-3].
        """
        _check_number(self.backoff_coefficient, "backoff_coefficient", 1, math.inf)
        _check_number(self.jitter, "jitter", 0, 1)
        _check_count(self.maximum_attempts, "maximum_attempts", 0)
        initial_ms = to_duration_ms(self.initial_interval, "initial_interval")
        maximum_ms = optional_duration_ms(self.maximum_interval, "maximum_interval")
        if initial_ms == 0:
            raise ValueError("initial_interval must be above 0")
        if maximum_ms is not None and maximum_ms < initial_ms:
            raise ValueError(f"maximum_interval of {maximum_ms} ms is below the initial_interval of {initial_ms} ms")
        return frames.RetryPolicy(
            initial_interval_ms=initial_ms,
            backoff_coefficient=float(self.backoff_coefficient),
            maximum_interval_ms=maximum_ms,
            maximum_attempts=self.maximum_attempts,
            total_duration_ms=optional_duration_ms(self.total_duration, "total_duration"),
            jitter=float(self.jitter),
        )


@dataclass(frozen=True)
class Recovery:
    """The recovery Step of a Step, and options for it."""

    step: "Step[Any] | type[Step[Any]]"
    options: "StepOptions | None"


@dataclass(frozen=True)
class StepOptions:
    """How a Step's methods are run; an unset field leaves the default, or what the Step itself says [STEP-8]."""

    wait_for_method_timeout: Duration | None = None
    """From hand-over; None means 2 h [OPT-1]."""
    execute_method_timeout: Duration | None = None
    """From hand-over; None means 2 h [OPT-1]."""
    heartbeat_timeout: Duration | None = None
    """Longest time without ``context.heartbeat``, since hand-over or the last one; None and 0 are off [HB-1]."""
    wait_for_retry: RetryPolicy | None = None
    execute_retry: RetryPolicy | None = None
    non_retryable_errors: Sequence[type[BaseException] | str] = ()
    """Exception classes or qualified names ``module.Class`` that, like their subclasses, are not retried [RETRY-5]."""
    wait_for_failure: WaitForFailurePolicy | None = None
    """None means FAIL_FLOW."""
    wait_for_durability: StepDurability | None = None
    execute_durability: StepDurability | None = None
    """None means that of the Flow [CFG-3]."""
    wait_for_lock_attributes: Sequence[AttributeLock] = ()
    """Locked from the first hand-over of wait_for to its end, retries and backoff included [LOCK-2]."""
    execute_lock_attributes: Sequence[AttributeLock] = ()
    """The same for execute."""
    preload: Sequence[AnyAttribute] = ()
    """Large values to fetch before a method is called instead of at their first read [ATTR-7]."""
    recovery: Recovery | None = dataclasses.field(default=None, kw_only=True)
    """Set by ``on_execute_failure_proceed_to``."""
    priority: int | None = dataclasses.field(default=None, kw_only=True)
    """1 (served first) to 5 among calls that wait for a worker; None means that of the Flow."""

    def __post_init__(self) -> None:
        optional_duration_ms(self.wait_for_method_timeout, "wait_for_method_timeout")
        optional_duration_ms(self.execute_method_timeout, "execute_method_timeout")
        optional_duration_ms(self.heartbeat_timeout, "heartbeat_timeout")
        if self.priority is not None:
            _check_priority(self.priority)
        # A str is a sequence of str, so a forgotten comma would otherwise list single letters.
        if isinstance(self.non_retryable_errors, str | type):
            raise ValueError("non_retryable_errors takes a sequence of classes or names")
        object.__setattr__(self, "non_retryable_errors", tuple(self.non_retryable_errors))
        object.__setattr__(self, "wait_for_lock_attributes", tuple(self.wait_for_lock_attributes))
        object.__setattr__(self, "execute_lock_attributes", tuple(self.execute_lock_attributes))
        object.__setattr__(self, "preload", tuple(self.preload))
        for error in self.non_retryable_errors:
            qualified_error_name(error)

    def on_execute_failure_proceed_to(
        self, step: "Step[Any] | type[Step[Any]]", options: "StepOptions | None" = None
    ) -> "StepOptions":
        """Return a copy under which ``step`` is scheduled when execute has no attempt left [OPT-4].

        Args:
            step: A Step of the same Flow with the same input type.
            options: Options for it, over its own; they may name a further recovery Step [OPT-5].
        """
        return dataclasses.replace(self, recovery=Recovery(step, options))

    def overridden_by(self, other: "StepOptions | None") -> "StepOptions":
        """Return a copy with the fields that the other has set [STEP-8]."""
        if other is None:
            return self
        values = {field.name: getattr(other, field.name) for field in dataclasses.fields(other)}
        return dataclasses.replace(
            self, **{name: value for name, value in values.items() if value is not None and value != ()}
        )


def qualified_error_name(error: type[BaseException] | str) -> str:
    """Give the name under which a failure's classes are matched [RETRY-5].

    Raises:
        ValueError: neither an exception class nor a qualified name.
    """
    if isinstance(error, type) and issubclass(error, BaseException):
        return f"{error.__module__}.{error.__qualname__}"
    if not isinstance(error, str):
        raise ValueError(f"non_retryable_errors has {error!r}, an exception class or qualified name is needed")
    check_name(error, "entry of non_retryable_errors")
    if "." in error:
        return error
    if not isinstance(getattr(builtins, error, None), type):
        raise ValueError(f"non_retryable_errors has {error!r}, a name outside builtins needs its module")
    return f"builtins.{error}"


@dataclass(frozen=True)
class AttributeAssignment:
    """An initial value of an Attribute."""

    attribute: AnyAttribute
    key: str
    """The attribute's key, or that of one map instance."""
    value: Any


@dataclass(frozen=True)
class StartFlowOptions:
    """How a Flow is started."""

    timeout: Duration | None = None
    """Time for the whole Flow, from the moment its start Step is eligible; None and 0 are off [TIME-1]."""
    timeout_policy: FlowTimeoutPolicy = FlowTimeoutPolicy.DEFAULT
    """What its end does; any but DEFAULT needs a timeout [TIME-2]."""
    timeout_handler_options: StepOptions | None = None
    """How ``handle_timeout`` is run; with the policy HANDLER only, be it by DEFAULT."""
    start_delay: Duration | None = None
    """The Flow is accepted now, its start Step becomes eligible this much later [START-7]."""
    id_reuse_policy: IdReusePolicy = IdReusePolicy.DEFAULT
    retry_policy: RetryPolicy | None = None
    """Begin again in a new run after FAILED, without total_duration; None does not [START-8]."""
    config_override: FlowConfig | None = None
    """Settings over the server's [CFG-1]."""
    ignore_already_started: bool = False
    """Accepted; a start with another request ID stays refused whatever it says [START-5]."""
    request_id: str | None = None
    """Same ID and same content is the same start [START-3]; None lets the SDK draw one [START-6]."""
    initial_attributes: tuple[AttributeAssignment, ...] = dataclasses.field(default=(), kw_only=True)
    """Set by ``with_attribute``."""
    priority: int = dataclasses.field(default=PRIORITY_DEFAULT, kw_only=True)
    """1 (served first) to 5 among calls that wait for a worker on one queue."""
    fairness_key: str = dataclasses.field(default="", kw_only=True)
    """Calls of one priority take turns by this key, for example a customer, however many calls each has."""
    fairness_weight: float = dataclasses.field(default=1.0, kw_only=True)
    """Share of the key's turns, 0.001 to 1000; steps of 0.001."""

    def __post_init__(self) -> None:
        check_flow_limits(self.timeout, self.timeout_policy, self.start_delay, self.retry_policy)
        _check_member(self.id_reuse_policy, IdReusePolicy, "id_reuse_policy")
        _check_request_id(self.request_id)
        _check_priority(self.priority)
        if self.fairness_key != "":
            check_name(self.fairness_key, "fairness_key")
        _check_number(self.fairness_weight, "fairness_weight", 0.001, 1_000)

    @overload
    def with_attribute(self, attribute: Attribute[T], value: T, /) -> "StartFlowOptions": ...
    @overload
    def with_attribute(self, attribute: AttributeMap[T], instance: str, value: T, /) -> "StartFlowOptions": ...
    def with_attribute(self, attribute: Attribute[T] | AttributeMap[T], *arguments: Any) -> "StartFlowOptions":
        """Return a copy that also writes an initial value, in the commit that creates the execution [ATTR-4]."""
        *instance, value = arguments
        assignment = AttributeAssignment(attribute, key_of(attribute, *instance), value)
        return dataclasses.replace(self, initial_attributes=(*self.initial_attributes, assignment))


@dataclass(frozen=True)
class StopFlowOptions:
    """How a Flow is stopped [STOP-1]."""

    type: StopType = StopType.CANCEL
    reason: str | None = None
    """Error message of a Flow stopped with FAIL [STOP-2]."""
    request_id: str | None = None
    """None lets the SDK draw one."""

    def __post_init__(self) -> None:
        _check_member(self.type, StopType, "type")
        _check_request_id(self.request_id)
        if self.reason is not None:
            check_text(self.reason, "reason")


def check_flow_limits(
    timeout: Duration | None,
    policy: FlowTimeoutPolicy,
    start_delay: Duration | None,
    retry_policy: RetryPolicy | None,
) -> None:
    """Check what limits a Flow's time and attempts.

    Raises:
        ValueError: a field is out of its range, a policy has no timeout [TIME-2], or the retry policy a total duration.
    """
    _check_member(policy, FlowTimeoutPolicy, "timeout_policy")
    optional_duration_ms(start_delay, "start_delay")
    if not optional_duration_ms(timeout, "timeout") and policy is not FlowTimeoutPolicy.DEFAULT:
        raise ValueError(f"timeout_policy {policy.name} needs a timeout above 0")
    if retry_policy is not None and retry_policy.total_duration is not None:
        raise ValueError("the retry_policy of a Flow has no total_duration")


def _check_member(value: object, enum: type[Enum], what: str) -> None:
    if not isinstance(value, enum):
        raise ValueError(f"{what} is {value!r}, a {enum.__name__} is needed")


def _check_request_id(request_id: str | None) -> None:
    if request_id is not None:
        check_name(request_id, "request_id")


def check_text(text: object, what: str) -> None:
    """Check that a text can be sent; ValueError if not."""
    if not isinstance(text, str):
        raise ValueError(f"{what} must be a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has a lone surrogate at position {error.start}") from None


def _check_priority(priority: object) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise ValueError(f"priority is {priority!r}, an int from {PRIORITY_MIN} (first) to {PRIORITY_MAX} is needed")


def _check_count(value: object, what: str, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= _COUNT_MAX:
        raise ValueError(f"{what} is {value!r}, an int of at least {minimum} is needed")


def _check_number(value: float, what: str, minimum: float, maximum: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{what} is {value!r}, a number is needed")
    # Comparisons refuse NaN; the upper one, with an infinite maximum, does not refuse infinity.
    if not minimum <= value <= maximum or value == math.inf:
        raise ValueError(f"{what} is {value!r}, a finite number from {minimum} to {maximum} is needed")
