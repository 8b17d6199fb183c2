"""Laws that hold for all inputs: retry delays, conditions, the fold, snapshots [RETRY-2, WAIT-5..8, INV-8]."""

from itertools import pairwise

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from dexd.core.config import DURATION_MS_MAX
from dexd.core.events import Event
from dexd.core.flow.conditions import Win, evaluate
from dexd.core.flow.evolve import evolve
from dexd.core.flow.retry import delay_ms
from dexd.core.flow.state import RunState
from dexd.core.outcome import RecordedEvent
from dexd.core.values import Condition, ConditionKind, RetryPolicy, Wait, WaitKind
from tests.property.histories import histories, live, seeds
from tests.support.builders import all_of, any_combination, any_of, channel, timer

# ---- retry ------------------------------------------------------------------------------------------------------

durations = st.integers(1, DURATION_MS_MAX)


@st.composite
def policies(draw: st.DrawFn) -> RetryPolicy:
    """Any policy that is let through [RETRY-3]."""
    initial = draw(durations)
    cap = draw(st.none() | st.integers(initial, DURATION_MS_MAX))
    coefficient = draw(st.floats(1.0, allow_infinity=False, allow_nan=False))
    return RetryPolicy(initial, coefficient, cap, jitter=draw(st.floats(0.0, 1.0)))


@given(policies(), st.integers(1, 2**63), st.floats(0.0, 1.0, exclude_max=True))
def test_retry_2_delay_is_defined_and_bounded_for_every_policy_and_attempt(
    policy: RetryPolicy, attempt: int, draw: float
) -> None:
    cap = policy.maximum_interval_ms
    if cap is None:
        cap = max(100_000, policy.initial_interval_ms)
    assert 0 <= delay_ms(policy, attempt, draw=draw) <= cap


@given(policies(), st.integers(1, 200))
def test_retry_2_delay_never_shrinks_without_jitter(policy: RetryPolicy, attempt: int) -> None:
    assert delay_ms(policy, attempt, draw=0.0) <= delay_ms(policy, attempt + 1, draw=0.0)


@given(st.integers(1, 10_000), st.integers(1, 40), st.integers(1, DURATION_MS_MAX))
def test_retry_2_doubling_is_exact(initial: int, attempt: int, cap: int) -> None:
    """Integers stand in for the formula where floats are exact."""
    policy = RetryPolicy(initial, 2.0, max(cap, initial))
    assert delay_ms(policy, attempt, draw=0.0) == min(initial * 2 ** (attempt - 1), max(cap, initial))


# ---- conditions -------------------------------------------------------------------------------------------------

bounds = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3)).map(
    lambda pair: (pair[0], None if pair[1] is None else pair[0] + pair[1])
)
channel_conditions = st.builds(lambda name, pair: channel(name, pair[0], pair[1]), st.sampled_from(["c", "d"]), bounds)
conditions = st.lists(st.just(timer(at=5)) | channel_conditions, min_size=1, max_size=5)


@st.composite
def waits(draw: st.DrawFn) -> Wait:
    chosen = draw(conditions)
    kind = draw(st.sampled_from([all_of, any_of, None]))
    if kind is not None:
        return kind(*chosen)
    groups = draw(st.lists(st.sets(st.integers(0, len(chosen) - 1), min_size=1), min_size=1, max_size=4))
    return any_combination(tuple(chosen), *(tuple(sorted(group)) for group in groups))


def naive_candidates(wait: Wait) -> list[list[int]]:
    numbered = list(range(len(wait.conditions)))
    if wait.kind is WaitKind.ALL_OF:
        return [numbered]
    if wait.kind is WaitKind.ANY_COMBINATION:
        return [sorted(group) for group in wait.combinations]
    by_kind = sorted(numbered, key=lambda index: (wait.conditions[index].kind is ConditionKind.CHANNEL, index))
    return [[index] for index in by_kind]


def naive_evaluate(wait: Wait, fired: frozenset[int], queued: dict[str, int]) -> Win | None:
    """Take message by message from real queues, and give everything back where a candidate fails."""
    for candidate in naive_candidates(wait):
        queues = {name: list(range(count)) for name, count in queued.items()}
        taken: dict[int, list[int]] = {index: [] for index in candidate}
        if _takes_minimums(wait, candidate, fired, queues, taken):
            _take_extras(wait, candidate, queues, taken)
            positions = tuple((index, tuple(sorted(taken[index]))) for index in candidate if taken[index])
            return Win(tuple(candidate), positions)
    return None


def _takes_minimums(
    wait: Wait, candidate: list[int], fired: frozenset[int], queues: dict[str, list[int]], taken: dict[int, list[int]]
) -> bool:
    for index in candidate:
        condition = wait.conditions[index]
        if condition.kind is ConditionKind.TIMER:
            if index not in fired:
                return False
            continue
        for _ in range(condition.at_least):
            queue = queues.get(condition.channel)
            if not queue:
                return False
            taken[index].append(queue.pop(0))
    return True


def _take_extras(wait: Wait, candidate: list[int], queues: dict[str, list[int]], taken: dict[int, list[int]]) -> None:
    for index in candidate:
        condition = wait.conditions[index]
        queue = queues.get(condition.channel, [])
        while condition.kind is ConditionKind.CHANNEL and queue and _wants_more(condition, len(taken[index])):
            taken[index].append(queue.pop(0))


def _wants_more(condition: Condition, count: int) -> bool:
    return condition.at_most is None or count < condition.at_most


@given(waits(), st.frozensets(st.integers(0, 4)), st.dictionaries(st.sampled_from(["c", "d"]), st.integers(1, 8)))
@example(all_of(channel("c", 2, 2), channel("c")), frozenset(), {"c": 3})
def test_wait_5_to_8_agree_with_a_naive_model(wait: Wait, fired: frozenset[int], queued: dict[str, int]) -> None:
    assert evaluate(wait, sorted(fired), queued) == naive_evaluate(wait, fired, queued)


@given(waits(), st.frozensets(st.integers(0, 4)), st.dictionaries(st.sampled_from(["c", "d"]), st.integers(1, 8)))
def test_wait_7_nothing_is_taken_twice_and_the_oldest_go_first(
    wait: Wait, fired: frozenset[int], queued: dict[str, int]
) -> None:
    won = evaluate(wait, sorted(fired), queued)
    if won is None:
        return
    taken: dict[str, list[int]] = {}
    for index, positions in won.positions:
        taken.setdefault(wait.conditions[index].channel, []).extend(positions)
        assert all(a < b for a, b in pairwise(positions))
    for positions_of_queue in taken.values():
        assert sorted(positions_of_queue) == list(range(len(positions_of_queue)))


# ---- the fold ---------------------------------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(RunState).decode


def folded(events: list[RecordedEvent], state: RunState | None = None) -> RunState | None:
    for event in events:
        state = evolve(state, event)
    return state


@given(histories(), st.data())
def test_inv_8_snapshot_and_tail_equal_the_whole_log(events: list[RecordedEvent], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(events)))
    head = folded(events[:cut])
    assert folded(events[cut:], _decode_state(_encode(head))) == folded(events)


@given(histories())
def test_arch_2_fold_is_total_on_histories_and_changes_no_event(events: list[RecordedEvent]) -> None:
    before = [_encode(recorded.event) for recorded in events]
    state = folded(events)
    assert state is not None
    assert state.version == len(events)
    assert [_encode(recorded.event) for recorded in events] == before


@given(histories())
def test_arch_9_events_survive_their_encoding(events: list[RecordedEvent]) -> None:
    decoded = [
        RecordedEvent(recorded.stream_id, recorded.version, recorded.at, _reread(recorded.event)) for recorded in events
    ]
    assert folded(decoded) == folded(events)


def _reread(event: Event) -> Event:
    return msgspec.msgpack.decode(_encode(event), type=type(event))


@given(histories())
def test_replay_gives_the_same_state_every_time(events: list[RecordedEvent]) -> None:
    assert folded(events) == folded(events)


@given(seeds, st.integers(1, 120))
def test_inv_9_whatever_happened_everything_runnable_ends(seed: int, steps: int) -> None:
    """[FLOW-11] Every command of the life checks the invariants; after it a capable worker finishes what is left."""
    live(seed, steps).finish()
