"""A worker process for all example Flows: `python -m examples.worker --server 127.0.0.1:8801`.

It says so on stdout once every queue is registered, and ends cleanly on SIGINT and SIGTERM.
"""

import argparse
import asyncio
import json
import os
import signal

from dexsdk import AsyncClient, AsyncWorker, ClientOptions, PullWorkerOptions, Registry, WorkerOptions
from examples.ai_agent_email import EmailAgentFlow
from examples.cron_report import ReportFlow
from examples.drain_channel import PrintQueueFlow
from examples.entity_store import AddressBookFlow
from examples.flow_caller import FlowCaller
from examples.interruptible_worker import CrawlFlow
from examples.large_document import LargeDocumentFlow
from examples.local_worker import DEFAULT_SERVER
from examples.manual_intervention import ImportFlow
from examples.money_transfer import MoneyTransferFlow, example_bank
from examples.order_processing import OrderFlow
from examples.parallel_first_win import RouteFlow
from examples.parallel_join import WordCountFlow
from examples.parent_child import AskFlow, FirstFlow, GatherFlow, QuorumFlow
from examples.polling import PollByRetryFlow, PollByTimerFlow, PollInOneGoFlow
from examples.reminders import ReminderFlow
from examples.resettable_timer import SessionFlow
from examples.resource_pool import JobFlow, PoolFlow
from examples.responsive_update import DocumentFlow
from examples.shortlist import EmployerFlow, ShortlistFlow
from examples.subscription import SubscriptionFlow
from examples.timeout_handler import BookingFlow
from examples.user_signup import SignUpFlow


def example_registry(caller: FlowCaller | None = None) -> Registry:
    """All example Flows; those that call others need a caller where they run."""
    caller = caller or FlowCaller()
    employers = EmployerFlow()
    flows = (
        OrderFlow(),
        MoneyTransferFlow(example_bank()),
        ReminderFlow(),
        ReportFlow(),
        SubscriptionFlow(),
        SessionFlow(),
        PollByTimerFlow(),
        PollByRetryFlow(),
        PollInOneGoFlow(),
        PrintQueueFlow(),
        RouteFlow(),
        WordCountFlow(),
        ImportFlow(),
        AddressBookFlow(),
        DocumentFlow(),
        LargeDocumentFlow(),
        CrawlFlow(),
        EmailAgentFlow(),
        SignUpFlow(),
        BookingFlow(),
        GatherFlow(),
        FirstFlow(),
        QuorumFlow(),
        AskFlow(),
        PoolFlow(caller),
        JobFlow(caller),
        employers,
        ShortlistFlow(employers, caller),
    )
    return Registry(flows, allow_async_handlers=True)


async def work(server: str) -> None:
    """Run the worker until a signal asks it to stop; running handlers finish first [DRAIN-1]."""
    pull = PullWorkerOptions(max_concurrent_tasks=8, idle_streams_per_queue=2)
    caller = FlowCaller()
    registry = example_registry(caller)
    worker = AsyncWorker(registry, None, WorkerOptions(server_address=server, pull=pull))
    client = AsyncClient(registry, None, ClientOptions(server_address=server))
    caller.connect(client)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    running = asyncio.create_task(worker.start())
    await worker.wait_pull_registered(timeout=60)
    print(json.dumps({"event": "worker_ready", "pid": os.getpid()}), flush=True)
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    await worker.close()
    await client.close()
    await running


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default=DEFAULT_SERVER, help=f"address of dexd (default {DEFAULT_SERVER})")
    asyncio.run(work(parser.parse_args().server))
