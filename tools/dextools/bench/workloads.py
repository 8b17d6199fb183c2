"""What the benchmark measures: the workloads by letter, as data."""

from enum import Enum

import msgspec


class Unit(Enum):
    """What the throughput of a workload counts."""

    FLOWS = "flows_per_s"
    """Flows from start to result."""
    STEPS = "steps_per_s"
    """Step executions whose result was accepted."""
    CALLS = "calls_per_s"
    """RPCs that were answered."""


class Shape(Enum):
    """What the Steps of a Flow do."""

    CHAIN = "chain"
    """Count down and complete."""
    GROWTH = "growth"
    """Count up and note the time on the way, to compare early Steps with late ones."""
    FAN_OUT = "fan_out"
    """One schedules many, and a last one waits for a message of each."""
    TIMER = "timer"
    """Wait for a Timer."""
    RPC_READ = "rpc_read"
    """None; RPCs read the Flow's state."""
    RPC_WRITE = "rpc_write"
    """None; RPCs write the Flow's state."""
    ECHO = "echo"
    """Wait for a message and complete with it."""


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a client process is told to do."""

    steps: int
    at_once: int
    warm_up_s: float
    """Load before the window in which figures are taken: connections, caches and the log's first pages."""
    window_s: float
    flows_max: int = 0
    """Ends the window early, after this many Flows; 0 for never."""
    shape: Shape = Shape.CHAIN


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A load of equal Flows, kept at a fixed number at once."""

    letter: str
    title: str
    steps: int
    """Steps of one Flow, one after the other."""
    at_once: int
    """Flows between start and result at any moment."""
    unit: Unit
    shape: Shape = Shape.CHAIN
    flows_max: int = 0

    def plan(self, *, warm_up_s: float, window_s: float) -> LoadPlan:
        return LoadPlan(
            steps=self.steps,
            at_once=self.at_once,
            warm_up_s=warm_up_s,
            window_s=window_s,
            flows_max=self.flows_max,
            shape=self.shape,
        )


AT_ONCE = 128
"""Concurrency of the throughput workloads, as the targets state it."""

GROWTH_STEPS = 10_000
"""Length of the one Flow of workload J."""

_WORKLOADS = (
    Workload(letter="A", title="one-Step Flow", steps=1, at_once=AT_ONCE, unit=Unit.FLOWS),
    Workload(letter="B", title="chain of 5 Steps", steps=5, at_once=AT_ONCE, unit=Unit.STEPS),
    Workload(letter="C", title="chain of 20 Steps", steps=20, at_once=AT_ONCE, unit=Unit.STEPS),
    Workload(
        letter="D",
        title="fan-out: 50 parallel Steps joined by a Channel",
        steps=1 + 50 + 1,
        at_once=4,
        unit=Unit.STEPS,
        shape=Shape.FAN_OUT,
    ),
    Workload(
        letter="E", title="1,000 Flows with a 1 s timer", steps=1, at_once=1_000, unit=Unit.FLOWS, shape=Shape.TIMER
    ),
    Workload(letter="F", title="one-Step Flow, one at a time", steps=1, at_once=1, unit=Unit.FLOWS),
    *(
        Workload(letter=letter, title=title, steps=1, at_once=at_once, unit=Unit.CALLS, shape=shape)
        for letter, title, at_once, shape in (
            ("G-read", "RPC read on open Flows", AT_ONCE, Shape.RPC_READ),
            ("G-write", "RPC write on open Flows", AT_ONCE, Shape.RPC_WRITE),
            ("G-read-alone", "RPC read, one at a time", 1, Shape.RPC_READ),
            ("G-write-alone", "RPC write, one at a time", 1, Shape.RPC_WRITE),
        )
    ),
    Workload(
        letter="H",
        title="publish to result of a waiting Flow, one at a time",
        steps=1,
        at_once=1,
        unit=Unit.FLOWS,
        shape=Shape.ECHO,
    ),
    Workload(
        letter="J",
        title="one long Flow: time per Step near its end over time per Step near its beginning",
        steps=GROWTH_STEPS,
        at_once=1,
        unit=Unit.STEPS,
        shape=Shape.GROWTH,
        flows_max=3,
    ),
)

WORKLOADS = {workload.letter: workload for workload in _WORKLOADS}
