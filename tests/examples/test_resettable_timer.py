"""A countdown that activity restarts."""

from datetime import timedelta

from dexsdk import SkipTimerOutcome, StartFlowOptions, StepExecutionId, TimerId
from dexsdk.testing import SyncEnvironment, start_env_sync
from examples.resettable_timer import ACTIVITY, IDLE, Session, SessionFlow, WatchStep

MINUTE = timedelta(minutes=1)
ADA = Session("Ada")


def ending(env: SyncEnvironment) -> str:
    return env.client.wait_for_flow("ada", timeout=10).single_output(str)


def test_each_sign_of_life_begins_the_countdown_anew() -> None:
    """[TIMER-1] a new Wait counts from its own installation."""
    with start_env_sync(SessionFlow(), auto_skip=False) as env:
        begun = env.now
        env.client.start_flow(SessionFlow, "ada", ADA)
        for _ in range(3):
            env.advance(9 * MINUTE)
            env.client.publish("ada", ACTIVITY, "click")
        env.advance(12 * MINUTE)
        assert ending(env) == "Ada logged out after 3 restarts, 0 unread"
        closed_at = env.client.describe_flow("ada").closed_at
        assert closed_at is not None
        assert closed_at - begun == (3 * 9 + 10) * MINUTE


def test_clicks_that_came_together_restart_it_once() -> None:
    """[CHAN-4] at_least takes all."""
    with start_env_sync(SessionFlow()) as env:
        env.client.start_flow(SessionFlow, "ada", ADA)
        env.client.publish("ada", ACTIVITY, "click", "click", "click")
        assert ending(env) == "Ada logged out after 1 restarts, 0 unread"


def test_a_timer_that_is_due_beats_a_message_that_is_queued() -> None:
    """[WAIT-5] both can be met when the Wait is installed; the message stays in its queue."""
    with start_env_sync(SessionFlow(), auto_skip=False) as env:
        env.client.start_flow(SessionFlow, "ada", Session("Ada", idle=0), StartFlowOptions(start_delay=MINUTE))
        env.client.publish("ada", ACTIVITY, "click")
        env.advance(MINUTE)
        assert ending(env) == "Ada logged out after 0 restarts, 1 unread"


def test_an_operator_logs_somebody_out_before_the_time() -> None:
    """[TIMER-8] a skipped Timer counts as fired."""
    with start_env_sync(SessionFlow(), auto_skip=False) as env:
        env.client.start_flow(SessionFlow, "ada", ADA)
        outcome = env.client.skip_timer("ada", StepExecutionId(WatchStep), TimerId.by_condition_id(IDLE))
        assert outcome is SkipTimerOutcome.APPLIED
        assert ending(env) == "Ada logged out after 0 restarts, 0 unread"
