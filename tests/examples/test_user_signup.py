"""A sign-up that reminds, verifies or gives up."""

from datetime import timedelta

import pytest

from dexsdk import FlowErrorType, FlowNotActiveError, FlowStatus, WorkerInvocationError
from dexsdk.testing import start_env_sync
from examples.user_signup import GIVE_UP, Mailer, SignUp, SignUpFlow

DAY = timedelta(days=1)
ADA = SignUp("ada@example.org")


def codes(mailer: Mailer) -> list[str]:
    return [text.removeprefix("your code is ") for _, text in mailer.sent.values()]


def test_the_code_ends_the_reminders() -> None:
    """[RPC-2, WAIT-5] the RPC writes and publishes in one commit, and the Step that waits goes on at once."""
    mailer = Mailer()
    flow = SignUpFlow(mailer)
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(SignUpFlow, "ada", ADA, GIVE_UP)
        env.advance(2.5 * DAY)
        assert len(mailer.sent) == 3
        env.client.invoke_rpc(flow.verify, "ada", codes(mailer)[0])
        result = env.client.wait_for_flow("ada", timeout=10)
        assert result.single_output(str) == "ada@example.org verified after 3 mails"
        env.advance(30 * DAY)
        assert env.client.describe_flow("ada").status is FlowStatus.COMPLETED
    assert len(mailer.sent) == 3


def test_a_wrong_code_changes_nothing() -> None:
    """[RPC-3]"""
    mailer = Mailer()
    flow = SignUpFlow(mailer)
    with start_env_sync(flow, auto_skip=False) as env:
        env.client.start_flow(SignUpFlow, "ada", ADA, GIVE_UP)
        with pytest.raises(WorkerInvocationError, match="not the code"):
            env.client.invoke_rpc(flow.verify, "ada", "wrong")
        env.advance(DAY)
        assert len(mailer.sent) == 2
        env.client.invoke_rpc(flow.verify, "ada", codes(mailer)[1])
        assert env.client.wait_for_flow("ada", timeout=10).status is FlowStatus.COMPLETED


def test_a_sign_up_that_nobody_verifies_ends_after_a_week_and_may_begin_again() -> None:
    """[TIME-2, FLOW-9, START-4] seven mails, and a code that comes too late is refused."""
    mailer = Mailer()
    flow = SignUpFlow(mailer)
    with start_env_sync(flow) as env:
        begun = env.now
        env.client.start_flow(SignUpFlow, "ada", ADA, GIVE_UP)
        result = env.client.wait_for_flow("ada", timeout=10)
        assert (result.status, result.error_type) == (FlowStatus.FAILED, FlowErrorType.FLOW_TIMEOUT)
        assert env.now - begun == 7 * DAY
        with pytest.raises(FlowNotActiveError):
            env.client.invoke_rpc(flow.verify, "ada", codes(mailer)[0])
        first_week = len(mailer.sent)
        assert first_week == 7
        env.client.start_flow(SignUpFlow, "ada", ADA, GIVE_UP)
        assert len(mailer.sent) == first_week + 1


def test_every_mail_has_the_same_code_although_the_draw_and_a_mail_run_twice() -> None:
    """[GEN-7, STEP-9] the code of the lost result was never sent to anybody."""
    mailer = Mailer()
    flow = SignUpFlow(mailer)
    with start_env_sync(flow, auto_skip=False) as env:
        env.duplicate_next_delivery()
        env.client.start_flow(SignUpFlow, "ada", ADA, GIVE_UP)
        env.advance(3 * DAY)
        assert len(codes(mailer)) == 4
        assert len(set(codes(mailer))) == 1
        env.client.invoke_rpc(flow.verify, "ada", codes(mailer)[0])
        assert env.client.wait_for_flow("ada", timeout=10).status is FlowStatus.COMPLETED
