"""The bare pipeline's client process, all requests over one session: ``ADDRESS PLAN`` on the command line."""

import asyncio
import itertools
import sys
import uuid

import grpc
import msgspec
import uvloop

from dexpb.v1 import flow_service_pb2 as flow_pb
from dextools.bench.calls import ClientCall, open_client_session
from dextools.bench.load import ClosedLoop
from dextools.bench.notice import announce
from dextools.bench.outbox import Outbox
from dextools.bench.workloads import LoadPlan

STEP_TYPE = "ChainStep"


class Session:
    """Requests and their replies over one stream."""

    def __init__(self, call: ClientCall) -> None:
        self._call = call
        self._out: Outbox[flow_pb.ClientRequest] = Outbox()
        self._numbers = itertools.count(1)
        self._unanswered: dict[int, asyncio.Future[bytes]] = {}

    async def request(self, method: str, body: bytes) -> bytes:
        number = next(self._numbers)
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._unanswered[number] = reply
        self._out.put(flow_pb.ClientRequest(id=number, method=method, body=body))
        return await reply

    async def send(self) -> None:
        while True:
            await self._call.write(flow_pb.ClientBatch(requests=await self._out.take()))

    async def receive(self) -> None:
        async for batch in self._call:
            for reply in batch.replies:
                self._unanswered.pop(reply.id).set_result(reply.body)


class ChainClient:
    """Starts chains and waits for their results, one request each, as the SDK does."""

    def __init__(self, session: Session, steps: int) -> None:
        self._session = session
        self._input = str(steps - 1).encode()
        self._start_step = flow_pb.StartStep(step_type=STEP_TYPE, has_wait_for=False)

    async def run_flow(self, number: int) -> None:
        flow_id = f"chain-{number}"
        start = flow_pb.StartFlowRequest(
            flow_id=flow_id,
            flow_type="ChainFlow",
            request_id=uuid.uuid4().hex,
            input=self._input,
            start_step=self._start_step,
        )
        reply = await self._session.request("StartFlow", start.SerializeToString())
        run_id = flow_pb.StartFlowReply.FromString(reply).run_id
        wait = flow_pb.WaitForFlowRequest(flow_id=flow_id, wait_ms=60_000, first_run_id=run_id)
        reply = await self._session.request("WaitForFlow", wait.SerializeToString())
        status = flow_pb.WaitForFlowReply.FromString(reply).status
        if status != "COMPLETED":
            raise RuntimeError(f"Flow {flow_id} ended as {status!r}")


async def drive(address: str, plan: LoadPlan) -> None:
    """Runs the load and announces what it measured."""
    async with grpc.aio.insecure_channel(address) as channel:
        session = Session(open_client_session(channel))
        pumps = [asyncio.create_task(session.send()), asyncio.create_task(session.receive())]
        result = await ClosedLoop(ChainClient(session, plan.steps).run_flow, plan).run()
        for pump in pumps:
            pump.cancel()
    announce("load_result", result=result)


if __name__ == "__main__":
    uvloop.run(drive(sys.argv[1], msgspec.json.decode(sys.argv[2], type=LoadPlan)))
