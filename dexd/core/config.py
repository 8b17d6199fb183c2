"""Numbers the rules work with.

The shell fills them from configuration; the defaults are those of docs/configuration.md.
"""

import msgspec

from dexd.core.terms import ActiveStepSearchMode
from dexd.core.values import StepDurability


class KernelConfig(msgspec.Struct, frozen=True):
    """All durations are milliseconds."""

    dispatch_wait_ms: int = 10_000
    """How long one dispatch looks for a worker, sticky wait included [ROUTE-3]."""
    sticky_wait_ms: int = 5_000
    """How long a call waits for the worker that last served its Flow [ROUTE-2]."""
    accept_timeout_ms: int = 5_000
    """How long an assignment may stay without sign of life before it is offered elsewhere [DELIV-3]."""
    resume_wait_ms: int = 5_000
    """How long deliveries of a lost session stay current [WIRE-11]."""
    ping_interval_ms: int = 20_000
    pong_timeout_ms: int = 10_000
    session_max_age_ms: int = 86_400_000
    """Age at which a worker is asked to replace its session by a new one, finishing first what it runs; 0 is never.

    Sessions that began together get different ages, from four fifths of this one on. A worker that stays is cut off
    after 5 s, or half of matching.dispatch_wait if that is less, and comes back with the calls it runs [DRAIN-3].
    """
    max_concurrent_tasks_cap: int = 256
    """Largest max_concurrent_tasks of a worker, and the streams one app worker ID may hold [QUEUE-3]."""
    max_streams: int = 100_000
    max_queue_length: int = 256
    max_flow_types: int = 256
    max_flow_type_length: int = 256
    method_timeout_ms: int = 7_200_000
    """Timeout of a Step method that names none [OPT-1]."""
    step_durability: StepDurability = StepDurability.SYNC
    """Durability of results where neither the method nor the Flow says one [CFG-3]."""
    rollover_events: int = 10_000
    """Events of a run after which another one continues it, unless the Flow says another number; 0 is off [ROLL-2]."""
    active_step_search: ActiveStepSearchMode = ActiveStepSearchMode.WITH_WAIT_FOR
    """Which Steps the search field ActiveStepTypes shows where the Flow says nothing [CFG-1]."""


DECLINED_OFFERS_MAX = 16
"""Declined offers kept by name in one dispatch event; further ones are counted [ROUTE-9]."""

CANCEL_GRACE_MS = 30_000
"""How long a canceled handler may clean up before its slot is released by force [STOP-4]."""

RECONNECT_GRACE_MS = 5_000
"""How long a worker that was asked to replace its session may go on with it, at most half the dispatch wait [DRAIN-3].

Meanwhile the worker gets no calls, and those that can go nowhere else wait for it.
"""

CAPACITY_HOLD_MS_MIN = 50
CAPACITY_HOLD_MS_MAX = 1_000
"""Pause between offers to a worker that said NO_CAPACITY and freed no slot since [CAP-2].

It doubles from the minimum to the maximum while the worker keeps declining: every offer is an event in the log, and a
worker that is full for an hour must not fill it.
"""

AVOID_MS = 1_000
"""How long a call that a worker did not accept in time is kept for others before it may go there again [DELIV-3].

Without an end, a worker that is alone and was stalled for a moment would never get the call back.
"""

CAPACITY_TIGHT_MS = 1_000
"""How long after a NO_CAPACITY a worker gets no more calls than it should have free slots, by its own numbers.

At other times it is offered one more than that, because its word counts and not the server's arithmetic; without any
limit every slot that it frees would draw an offer to each of its idle streams, and all but one would be declined.
"""

REQUESTS_REMEMBERED_MAX = 10_000
REQUESTS_REMEMBERED_MS = 86_400_000
"""Request IDs kept per execution: the newest 10,000 of the last 24 h [RPC-12]."""

ACCEPTED_REMEMBERED_MAX = 32
"""Accepted results kept by token per run, so that a result repeated because its acknowledgement was lost is
acknowledged again instead of refused [WIRE-10].

A worker repeats only what was unacknowledged when its session broke.
"""

HEARTBEAT_LOG_MS = 1_000
"""How often the value of an attempt's heartbeats is recorded at most [HB-3]."""
HEARTBEAT_BYTES_MAX = 64 * 1024
"""Size of one heartbeat's value [HB-3]."""

PENDING_MESSAGES_MAX = 100_000
PENDING_BYTES_MAX = 256 * 1024 * 1024
"""Unconsumed messages of one execution [CHAN-10]."""

ACTIVE_STEPS_MAX = 50_000
"""Active Step executions of one execution [LIM-2]."""
MOVEMENTS_MAX = 10_000
"""Steps scheduled by one decision [DEC-1]."""
PUBLICATIONS_MAX = 10_000
"""Messages published by one response [LIM-2]."""
RECORDED_EVENTS_MAX = 100
"""Recorded events of one call [LIM-2]."""
MAP_INSTANCES_MAX = 100_000
"""Instances of all AttributeMaps of one execution [LIM-2]."""
CONDITIONS_MAX = 1_000
COMBINATIONS_MAX = 100
"""Size of one Wait [WAIT-12]."""
MAP_KEY_SEPARATOR = "\0"
"""Joins a map's name and an instance key."""
INLINE_VALUE_BYTES_MAX = 64 * 1024
"""Attribute values above it travel as references [ATTR-7]."""
INLINE_MAP_VALUES_BYTES_MAX = 1024 * 1024
"""Values of AttributeMaps in one snapshot; what is beyond travels as references [ATTR-7]."""
UPLOAD_REMEMBERED_MS = 86_400_000
"""How long a large value that nothing refers to is kept, and who uploaded it remembered [BLOB-4]."""
FETCH_BYTES_MAX = 1024 * 1024
FETCH_MESSAGES_MAX = 1_000
"""What one answer to a handler that fetches holds at most; a larger message goes alone."""
REAPPLIED_WRITES_MAX = 100_000
"""External writes that one time travel applies again; all of them go into one commit [TT-5]."""
TIMER_SKIPS_MAX = 100
"""Timers of one run that wait to be skipped [TIMER-9]."""
SUB_FLOW_DEPTH_MAX = 100
"""How deep SubFlows nest [SUB-8]."""
STEP_LOCALS_BYTES_MAX = 1024 * 1024
"""Locals of one Step execution [STEP-5]."""
DURATION_MS_MAX = 36_525 * 86_400_000
"""100 years, the longest duration in the product [TIMER-2]."""
NAME_LENGTH_MAX = 255
"""Code points of a name or ID [ID-1]."""
