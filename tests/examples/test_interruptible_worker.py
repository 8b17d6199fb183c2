"""Loops that an RPC stops."""

from datetime import timedelta

from dexsdk import FlowStatus
from dexsdk.testing import start_env_sync
from examples.interruptible_worker import PAGES, Crawl, CrawlFlow

MINUTE = timedelta(minutes=1)
FLOW = CrawlFlow()


def test_all_loops_stop_at_their_next_turn_and_lose_no_page() -> None:
    """[ATTR-8, DEC-2] each turn sees what the RPC has written before it; the last loop completes the Flow."""
    with start_env_sync(FLOW, auto_skip=False) as env:
        env.client.start_flow(CrawlFlow, "crawl", Crawl(loops=3))
        env.advance(10.5 * MINUTE)
        assert env.client.invoke_rpc(FLOW.stop, "crawl", "enough") == 30
        assert env.client.describe_flow("crawl").status is FlowStatus.RUNNING
        env.advance(MINUTE)
        result = env.client.wait_for_flow("crawl", timeout=10)
        assert result.status is FlowStatus.COMPLETED
        assert sorted(completion.decode(str) for completion in result.completions) == [
            f"loop-{number}: 10 pages, enough" for number in (1, 2, 3)
        ]


def test_loops_go_on_as_long_as_nobody_stops_them() -> None:
    with start_env_sync(FLOW, auto_skip=False) as env:
        env.client.start_flow(CrawlFlow, "crawl", Crawl(loops=2))
        env.advance(20 * MINUTE)
        assert [env.client.get_attribute("crawl", PAGES, loop) for loop in ("loop-1", "loop-2")] == [20, 20]
        assert env.client.describe_flow("crawl").status is FlowStatus.RUNNING


def test_a_stop_that_was_acknowledged_survives_a_crash() -> None:
    """[GEN-8]"""
    with start_env_sync(FLOW, auto_skip=False) as env:
        env.client.start_flow(CrawlFlow, "crawl", Crawl(loops=1))
        env.client.invoke_rpc(FLOW.stop, "crawl", "enough")
        env.crash_server()
        env.recover_server()
        env.advance(MINUTE)
        assert env.client.wait_for_flow("crawl", timeout=10).single_output(str) == "loop-1: 0 pages, enough"
