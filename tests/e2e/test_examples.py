"""Every example runs against a server and ends as its docstring says [flow-model section 28]."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dextools.local_processes import CHECKOUT
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("examples")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("examples") / "data") as process:
        yield process


def lines_of(example: str, server: ServerProcess) -> list[str]:
    """What an example prints; random parts of IDs become `*`."""
    ran = subprocess.run(
        [sys.executable, "-m", f"examples.{example}", "--server", server.address],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return re.sub(r"-[0-9a-f]{8}\b", "-*", ran.stdout).splitlines()


def test_an_order_is_shipped_and_one_that_no_carrier_takes_is_refunded(server: ServerProcess) -> None:
    """[WAITAPI-3, OPT-4] the start API answers after the charge; the recovery Step refunds."""
    assert lines_of("order_processing", server) == [
        "order-* started: CHARGED",
        "order-* COMPLETED parcel-*",
        "order-* started: CHARGED",
        "order-* COMPLETED refunded: no route to Lonely island 2",
    ]


def test_a_transfer_works_is_compensated_or_is_refused(server: ServerProcess) -> None:
    """[OPT-4, DEC-6, STEP-9] the money that cannot be credited is back where it came from."""
    assert lines_of("money_transfer", server) == [
        "transfer-* COMPLETED 2500 moved from alice to bob",
        "transfer-* FAILED given back to alice: account frozen-inc is frozen",
        "transfer-* FAILED account bob has 3000, needed 1000000",
        "balances: {'alice': 7500, 'bob': 3000, 'frozen-inc': 0}",
    ]


def test_reminders_end_after_the_last_one_or_with_the_opt_out(server: ServerProcess) -> None:
    """[WAIT-5] a Timer or a message, whichever comes first."""
    assert lines_of("reminders", server) == [
        "reminder-* COMPLETED all 3 sent",
        "reminder-* COMPLETED opted out after 0: too many mails",
    ]


def test_reports_of_past_mornings_are_written_once(server: ServerProcess) -> None:
    """[SCHED-3, SCHED-16] the clocks change on the third morning; what was written is not written again."""
    assert lines_of("cron_report", server) == [
        "fires at 2026-10-23 04:30 UTC",
        "fires at 2026-10-24 04:30 UTC",
        "fires at 2026-10-25 05:30 UTC",
        "fires at 2026-10-26 05:30 UTC",
        "report 1 of the past is written",
        "report 2 of the past is written",
        "report 3 of the past is written",
        "[]",
        "ACTIVE: 4 of 4 started",
    ]


def test_a_pull_worker_answers_probes_and_tells_its_diagnostics(server: ServerProcess) -> None:
    """[READY-4, READY-8, RES-6] ready once registered, and what it declined stays readable after its end."""
    assert lines_of("pull_greeting", server) == [
        "probe before the start: 503",
        "probe once registered: 200",
        "greeting-* says Hello, Ada!",
        "Diagnostics(is_ready=True, reserved_rpc_declines=0)",
    ]


def test_a_subscription_runs_out_or_is_cancelled(server: ServerProcess) -> None:
    """[FLOW-5, DEC-3] whatever else waits ends with it."""
    assert lines_of("subscription", server) == [
        "subscription-* COMPLETED over after 2 bills",
        "subscription-* Description(in_trial=False, amount=990, bills=2)",
        "subscription-* COMPLETED cancelled after 0 bills: too dear",
        "subscription-* Description(in_trial=True, amount=1490, bills=0)",
    ]


def test_a_countdown_begins_anew_with_each_message(server: ServerProcess) -> None:
    """[WAIT-5, TIMER-1] three times, and then it ends."""
    assert lines_of("resettable_timer", server) == ["session-* COMPLETED Ada logged out after 3 restarts, 0 unread"]


def test_three_ways_to_poll_see_the_same_end(server: ServerProcess) -> None:
    """[RETRY-6, HB-2] by Timers, by attempts, and in one execute that goes on at its checkpoint."""
    assert lines_of("polling", server) == [
        "poll-* PollByTimerFlow COMPLETED done at LookStep-5",
        "poll-* PollByRetryFlow COMPLETED done at attempt 5",
        "poll-* PollInOneGoFlow COMPLETED done, attempt 2 began at part 3",
    ]


def test_a_queue_is_drained_closed_and_opened_again_without_losing_a_letter(server: ServerProcess) -> None:
    """[DEC-4, DEC-5] five writers race the end of the queue."""
    assert lines_of("drain_channel", server) == ["letters-* COMPLETED 50 letters, 50 different ones"]


def test_the_first_answer_wins_and_the_other_handlers_stop(server: ServerProcess) -> None:
    """[DEC-9, DEC-11, STOP-5] async ones are interrupted, the sync one asks."""
    assert lines_of("parallel_first_win", server) == [
        "route-* COMPLETED planner-2",
        "route-* COMPLETED local",
        "stopped: ['local', 'planner-1', 'planner-1', 'planner-2']",
    ]


def test_a_fan_out_as_wide_as_its_input_is_joined(server: ServerProcess) -> None:
    """[DEC-1, CHAN-4] by as many messages as there are pages."""
    assert lines_of("parallel_join", server) == [
        "book-* COMPLETED 140 words on 20 pages",
        "book-* COMPLETED 0 words on 0 pages",
    ]


def test_a_human_says_whether_to_retry_or_to_skip(server: ServerProcess) -> None:
    """[OPT-4] the recovery Step waits for the verdict."""
    waiting, closed, result = lines_of("manual_intervention", server)
    assert waiting == "AskStep-1 CHANNEL waiting on Channel 'verdicts' with 0 of 1 messages"
    assert closed.startswith("- NO_STEPS no active Step: the Flow is COMPLETED since ")
    assert result == "import-* COMPLETED 2 imported, 1 skipped"


def test_an_address_book_is_a_flow_without_steps(server: ServerProcess) -> None:
    """[FLOW-3, RPC-3] RPCs read and write it."""
    assert lines_of("entity_store", server) == [
        "book-* ['Ada'] Contact(name='Ada', phone='0170 1', notes='likes engines')",
        "LookupError - Bob is not in the book",
    ]


def test_edits_are_accepted_at_once_and_waited_for(server: ServerProcess) -> None:
    """[WAITAPI-5, RPC-10] the wait is met by the revision, or by a newer one."""
    assert lines_of("responsive_update", server) == [
        "document-* accepted revision 1",
        "document-* accepted revision 2",
        "document-* accepted revision 3",
        "document-* shows revision 3 - It was a dark night",
    ]


def test_loops_stop_when_an_rpc_has_said_so(server: ServerProcess) -> None:
    """[ATTR-8] each sees it in the snapshot of its next turn."""
    assert lines_of("interruptible_worker", server) == ["crawl-* COMPLETED 3 loops, {'enough'}"]


def test_an_agent_drafts_listens_and_sends(server: ServerProcess) -> None:
    """[RPC-2, WAIT-5] the approval is of the second revision; a message sends it before the Timer does."""
    assert lines_of("ai_agent_email", server) == [
        "email-* Draft(revision=2, recipient='bob@example.org', body='invite Bob to lunch, on Friday')",
        "email-* COMPLETED invite Bob to lunch, on Friday",
    ]


def test_jobs_share_the_slots_of_a_pool(server: ServerProcess) -> None:
    """[CHAN-6, RPC-12] the job that fails gives its slot back too."""
    assert lines_of("resource_pool", server) == [
        "pool-*/job-0 COMPLETED",
        "pool-*/job-1 FAILED",
        "pool-*/job-2 COMPLETED",
        "pool-*/job-3 COMPLETED",
        "pool-*/job-4 COMPLETED",
        "free: 2",
    ]


def test_a_step_asks_the_flow_of_an_employer(server: ServerProcess) -> None:
    """[RPC-10, WAIT-5] told, revoked, and not wanted."""
    assert lines_of("shortlist", server) == [
        "wants-*/Ada COMPLETED sent",
        "wants-*/Bob COMPLETED revoked: the position is filled",
        "silent-*/Eve COMPLETED not sent: the employer has not opted in",
        "Ada, you are on the shortlist of wants-*",
    ]


def test_a_survey_gathers_all_answers_or_takes_the_first_or_two(server: ServerProcess) -> None:
    """[SUB-1, SUB-5] a failed child is an answer too; one that lost reads as running."""
    assert lines_of("parent_child", server) == [
        "survey-* COMPLETED Ada says tea; FAILED: there is nobody; Grace says coffee",
        "survey-* COMPLETED RUNNING; Grace says tea",
        "survey-* COMPLETED Ada says tea; RUNNING; Grace says tea",
    ]


def test_a_booking_that_is_not_paid_in_time_is_given_back(server: ServerProcess) -> None:
    """[TIME-3] the handler decides, and its recovery Step when it cannot."""
    assert lines_of("timeout_handler", server) == [
        "booking-* COMPLETED A1 sold for 42",
        "booking-* COMPLETED A2 is on sale again",
        "booking-* FAILED call the hall: A3, sold on paper, cannot be returned",
    ]


def test_a_sign_up_is_verified_by_its_code_or_runs_out_of_time(server: ServerProcess) -> None:
    """[RPC-3, TIME-2] a wrong code is refused."""
    assert lines_of("user_signup", server) == [
        "signup-* this is not the code",
        "signup-* COMPLETED ada@example.org verified after 1 mails",
        "signup-* FAILED FLOW_TIMEOUT",
    ]


def test_a_document_of_50_mb_goes_through_a_flow(server: ServerProcess) -> None:
    """[BLOB-1, BLOB-2, ATTR-7] large values everywhere, each content once in the store."""
    assert lines_of("large_document", server) == [
        "document-* has 1136363 lines",
        "document-* COMPLETED 52 MB, 1136363 lines corrected",
        "All work and no play makes Jack a bright boy",
    ]
