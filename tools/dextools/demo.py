"""`make demo`: three Flows, and a server that is killed with SIGKILL while they run [SURF-1].

A real server and a real worker, each a process of its own, on a temporary directory. The demo is a client: it starts an
order, a reminder and a money transfer, kills the server when all three are in the middle of something, starts it again
on the same directory and port, and lets the Flows finish. Then it prints what the server remembers of them and checks
that no Step's result was accepted twice. Exit code 0 if everything held.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dexsdk import AsyncClient, ClientOptions, FlowResult, FlowStatus, HistoryEvent
from dextools.history_table import HistoryRow, history_table
from dextools.local_processes import LocalProcess, start_server, start_worker
from examples.money_transfer import MoneyTransferFlow, Transfer
from examples.order_processing import APPROVAL, Order, start_order
from examples.reminders import OPT_OUT, SENT, ReminderFlow, ReminderPlan
from examples.worker import example_registry

ORDER_ID = "order-1001"
REMINDER_ID = "reminder-ada"
TRANSFER_ID = "transfer-7"
FLOW_IDS = (ORDER_ID, REMINDER_ID, TRANSFER_ID)

ACCEPTED_KINDS = frozenset({"WaitForCompleted", "ExecuteCompleted"})
"""Events that say that a result was applied; at most one of each for a Step execution [INV-3]."""

EXPECTED_STATUS = {
    ORDER_ID: FlowStatus.COMPLETED,
    REMINDER_ID: FlowStatus.COMPLETED,
    TRANSFER_ID: FlowStatus.FAILED,
}
"""The transfer fails on purpose: its credit is impossible, so it ends after the compensation."""

PIPE_WIDTH = 220
"""Columns where nobody's terminal says how many there are; enough for any row to stay on one line."""

console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)


def main() -> None:
    """Run the demo; the exit code says whether all held."""
    with tempfile.TemporaryDirectory(prefix="dexd-demo-") as directory:
        sys.exit(asyncio.run(demonstrate(Path(directory))))


async def demonstrate(directory: Path) -> int:
    """Play everything in a directory; gives the exit code."""
    server = start_server(directory / "data", "127.0.0.1:0", directory / "server.log")
    address = server.ready["address"]
    console.print(f"server {server.pid} listens on {address}, data in {directory / 'data'}")
    with start_worker(address, directory / "worker.log") as worker:
        console.print(f"worker {worker.pid} serves the example Flows")
        client = AsyncClient(example_registry(), None, ClientOptions(server_address=address))
        try:
            await begin(client)
            server = crash(server, directory)
            results = await finish(client)
            histories = {flow_id: await history_of(client, flow_id) for flow_id in FLOW_IDS}
        finally:
            await client.close()
            worker.stop()
            server.stop()
    show(histories, results)
    return verdict(histories, results)


async def begin(client: AsyncClient) -> None:
    """Bring all three Flows to a point in the middle."""
    order = Order(ORDER_ID, "Ada", 4_990, "Main Street 1")
    console.print(f"{ORDER_ID}: started, its first Step left it {await start_order(client, order)}")
    await client.start_flow(ReminderFlow, REMINDER_ID, ReminderPlan("ada@example.org", times=100, interval=1.0))
    await client.start_flow(MoneyTransferFlow, TRANSFER_ID, Transfer("alice", "frozen-inc", 2_500))
    await seen(client, REMINDER_ID, "TimerFired")
    await seen(client, TRANSFER_ID, "ExecuteFailed")
    console.print(
        f"{ORDER_ID} waits for approval, {REMINDER_ID} for its next timer, {TRANSFER_ID} for its next attempt"
    )


def crash(server: LocalProcess, directory: Path) -> LocalProcess:
    """Kill the server as a power cut would, and start it again where it was."""
    address = server.ready["address"]
    server.kill()
    console.print(f"\n[bold red]SIGKILL[/bold red] server {server.pid}")
    began = time.monotonic()
    restarted = start_server(directory / "data", address, directory / "server.log")
    console.print(
        f"[bold green]recovered[/bold green] {restarted.ready['recovered_runs']} of {len(FLOW_IDS)} open Flows from the"
        f" log: server {restarted.pid} listens on {address} again, {time.monotonic() - began:.2f} s after the kill\n"
    )
    return restarted


async def finish(client: AsyncClient) -> dict[str, FlowResult]:
    """Approve the order, opt out of the reminders, and wait until all three have ended."""
    sent_before = await client.get_attribute(REMINDER_ID, SENT)
    await client.publish(ORDER_ID, APPROVAL, True)
    await seen(client, REMINDER_ID, "TimerFired", times=(sent_before or 0) + 1)
    await client.publish(REMINDER_ID, OPT_OUT, "thank you, enough")
    return {flow_id: await client.wait_for_flow(flow_id, timeout=30) for flow_id in FLOW_IDS}


async def seen(client: AsyncClient, flow_id: str, kind: str, times: int = 1) -> None:
    """Return once a Flow's history has a number of events of one kind."""
    count = 0
    async for event in client.watch_history(flow_id):
        count += event.kind == kind
        if count >= times:
            return


async def history_of(client: AsyncClient, flow_id: str) -> Sequence[HistoryEvent]:
    """Read a whole history."""
    return [event async for event in client.watch_history(flow_id)]


def show(histories: dict[str, Sequence[HistoryEvent]], results: dict[str, FlowResult]) -> None:
    """Print one table for each Flow."""
    for flow_id, events in histories.items():
        result = results[flow_id]
        end = result.error_message or ", ".join(output.decode(str) for output in result.completions)
        rows = (
            HistoryRow(event.event_id, round(event.at.timestamp() * 1000), event.kind, event.data) for event in events
        )
        console.print(history_table(rows, full=False, title=f"{flow_id}: {result.status.value}, {end}"))


def verdict(histories: dict[str, Sequence[HistoryEvent]], results: dict[str, FlowResult]) -> int:
    """Check statuses and that no result was applied twice; gives the exit code."""
    faults = [
        f"{flow_id} is {results[flow_id].status.value}, not {status.value}"
        for flow_id, status in EXPECTED_STATUS.items()
        if results[flow_id].status is not status
    ]
    accepted = 0
    for flow_id, events in histories.items():
        counts = Counter(
            (event.kind, event.data["step_execution_id"]) for event in events if event.kind in ACCEPTED_KINDS
        )
        accepted += counts.total()
        faults += [f"{flow_id}: {kind} of {step} {count} times" for (kind, step), count in counts.items() if count > 1]
    for fault in faults:
        console.print(f"[bold red]{fault}[/bold red]")
    if not faults:
        console.print(f"{len(histories)} Flows ended as they should; {accepted} Step results, none accepted twice")
    return 1 if faults else 0


if __name__ == "__main__":
    main()
