"""The worker's task slots: how many handlers run, and how many slots are left to RPCs [CAP-1, RES-1..6]; pure."""


class Slots:
    """Counts busy handlers over all sessions of a worker."""

    __slots__ = ("busy", "limit", "reserve_declines", "step_limit")

    def __init__(self, limit: int, reserved: int) -> None:
        self.limit = limit
        """Handlers that may run at once, Steps and RPCs together."""
        self.step_limit = limit - reserved
        """Busy handlers from which on no Step starts any more [RES-3]."""
        self.busy = 0
        self.reserve_declines = 0
        """Steps declined only because of the reserve; never reset [RES-6]."""

    @property
    def are_all_busy(self) -> bool:
        """Whether not even an RPC could start."""
        return self.busy >= self.limit

    @property
    def spare(self) -> int:
        """Handlers that could start now."""
        return max(0, self.limit - self.busy)

    def can_take(self, *, is_rpc: bool) -> bool:
        """Whether a call of that kind may start now."""
        return self.busy < (self.limit if is_rpc else self.step_limit)

    def take(self) -> None:
        """Count a handler as busy."""
        self.busy += 1

    def release(self) -> None:
        """Count a handler as ended, or as given up."""
        self.busy -= 1
