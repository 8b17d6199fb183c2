"""Server time and what is minted [TIMER-6, ID-5]."""

from dexd.engine.system import NS_PER_MS, ServerClock, mint, mint_request_id


class Hardware:
    """Two clocks that a test turns."""

    def __init__(self) -> None:
        self.wall_ms = 1_000_000
        self.monotonic_ms = 50

    def clock(self, last_at: int = 0) -> ServerClock:
        return ServerClock(
            last_at,
            wall_ns=lambda: self.wall_ms * NS_PER_MS,
            monotonic_ns=lambda: self.monotonic_ms * NS_PER_MS,
        )

    def pass_time(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds
        self.monotonic_ms += milliseconds


def test_time_is_wall_time_while_both_clocks_agree() -> None:
    """[TIMER-6] Milliseconds since the epoch."""
    hardware = Hardware()
    clock = hardware.clock()
    assert clock.now() == 1_000_000
    hardware.pass_time(7)
    assert clock.now() == 1_000_007


def test_wall_clock_that_steps_back_neither_unfires_nor_stalls() -> None:
    """Acceptance row 32. [TIMER-6] Time advances with the monotonic clock."""
    hardware = Hardware()
    clock = hardware.clock()
    clock.now()
    hardware.wall_ms -= 500_000
    assert clock.now() == 1_000_000
    hardware.pass_time(10)
    assert clock.now() == 1_000_010


def test_wall_clock_that_steps_forward_is_followed() -> None:
    """[TIMER-6] What became due fires, once."""
    hardware = Hardware()
    clock = hardware.clock()
    clock.now()
    hardware.wall_ms += 500_000
    assert clock.now() == 1_500_000
    hardware.wall_ms -= 500_000
    assert clock.now() == 1_500_000


def test_time_continues_from_the_log_across_restarts() -> None:
    """[TIMER-6] Also when the wall clock was set back while the server was down."""
    hardware = Hardware()
    clock = hardware.clock(last_at=2_000_000)
    assert clock.now() == 2_000_000
    hardware.pass_time(5)
    assert clock.now() == 2_000_005


def test_minted_ids_are_unique_and_opaque() -> None:
    """[ID-5, START-6] Run IDs and request IDs never repeat."""
    minted = [mint("") for _ in range(1_000)]
    ids = {made.run_id for made in minted} | {made.request_id for made in minted} | {mint_request_id()}
    assert len(ids) == 2_001
    assert all(0 <= made.seed < 2**63 for made in minted)
