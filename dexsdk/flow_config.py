"""Settings of one execution, changeable while it runs [CFG-1..3]."""

from dataclasses import dataclass, fields
from enum import Enum

from dexpb.v1 import flow_service_pb2 as pb
from dexpb.v1 import frames

_THRESHOLD_MAX = 2**31 - 1


class ActiveStepSearchMode(Enum):
    """Which active Steps the search field ActiveStepTypes shows; StepStatus and LastError do not depend on it."""

    ALL = "ALL"
    WITH_WAIT_FOR = "WITH_WAIT_FOR"
    """Those that have a ``wait_for``."""
    DISABLED = "DISABLED"


class StepDurability(Enum):
    """When what follows a Step's result may leave the server."""

    SYNC = "SYNC"
    """After the result is on disk: nothing that follows is ever undone [DUR-1]."""
    ASYNC = "ASYNC"
    """The next Step may start before the result is on disk, which takes up to 50 ms; a crash of the server can then
    repeat work that had just finished [DUR-2]. Clients never see what is not on disk [DUR-3]."""


_SEARCH_MODE = {member: number for number, member in enumerate(ActiveStepSearchMode)}
_DURABILITY = {member: number for number, member in enumerate(StepDurability)}


@dataclass(frozen=True)
class FlowConfig:
    """Settings of a Flow; None leaves a field as it is, which at first is the server's default at the time of use.

    A Step's own options come before the Flow's settings, and these before the server's [CFG-3].
    """

    active_step_search_mode: ActiveStepSearchMode | None = None
    """Default WITH_WAIT_FOR. Recorded; acts once search does."""
    continue_as_new_threshold: int | None = None
    """Events after which a run is continued by a new one; default 10,000, 0 is off. Recorded; acts once roll-over
    does."""
    step_durability: StepDurability | None = None
    """Default SYNC."""
    record_rpc_io: bool | None = None
    """Whether input and output of RPCs enter history; default off [RPC-11]."""

    def __post_init__(self) -> None:
        _check_optional(self.active_step_search_mode, ActiveStepSearchMode, "active_step_search_mode")
        _check_optional(self.step_durability, StepDurability, "step_durability")
        _check_optional(self.record_rpc_io, bool, "record_rpc_io")
        threshold = self.continue_as_new_threshold
        if threshold is not None and (type(threshold) is not int or not 0 <= threshold <= _THRESHOLD_MAX):
            raise ValueError(f"continue_as_new_threshold is {threshold!r}, an int from 0 to {_THRESHOLD_MAX} is needed")

    @property
    def is_empty(self) -> bool:
        """Whether no field is set."""
        return all(getattr(self, field.name) is None for field in fields(self))

    def to_frame(self) -> frames.FlowConfig:
        """Give the settings as they travel in a session."""
        mode, durability = self.active_step_search_mode, self.step_durability
        return frames.FlowConfig(
            None if mode is None else _SEARCH_MODE[mode],
            self.continue_as_new_threshold,
            None if durability is None else _DURABILITY[durability],
            self.record_rpc_io,
        )

    def to_message(self) -> pb.FlowConfig:
        """Give the settings as they travel."""
        mode, durability = self.active_step_search_mode, self.step_durability
        return pb.FlowConfig(
            active_step_search_mode=None if mode is None else _SEARCH_MODE[mode],
            continue_as_new_threshold=self.continue_as_new_threshold,
            step_durability=None if durability is None else _DURABILITY[durability],
            record_rpc_io=self.record_rpc_io,
        )


def _check_optional(value: object, kind: type, what: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{what} is {value!r}, a {kind.__name__} or None is needed")
