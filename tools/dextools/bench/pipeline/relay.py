"""From message to rows to messages, without a rule in between."""

from collections.abc import Callable

from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import frames
from dextools.bench.outbox import Outbox
from dextools.bench.pipeline.facts import Flow, Row, Scribe
from dextools.bench.pipeline.journal import Journal, Unit

Replies = Outbox[flow_pb.ServerReply]


class Relay:
    """All state of the bare pipeline's server, which serves one worker session."""

    def __init__(self, journal: Journal) -> None:
        self.worker_out: Outbox[frames.ServerFrame] = Outbox()
        self._journal = journal
        self._scribe = Scribe("", "")
        self._by_run_id: dict[str, Flow] = {}
        self._waiters: dict[str, tuple[Replies, int]] = {}
        """The one held request of an open Flow, by Flow ID."""
        self._results: dict[str, flow_pb.WaitForFlowReply] = {}
        """Of closed Flows whose client has not asked yet, by Flow ID."""

    def on_request(self, request: flow_pb.ClientRequest, out: Replies) -> None:
        if request.method == "StartFlow":
            self._start(flow_pb.StartFlowRequest.FromString(request.body), request.id, out)
        else:
            self._wait(flow_pb.WaitForFlowRequest.FromString(request.body), request.id, out)

    def on_frame(self, frame: frames.WorkerFrame) -> None:
        if isinstance(frame, frames.Output):
            self._complete(frame)
        elif isinstance(frame, frames.Hello):
            self._scribe = Scribe(frame.worker_id, frame.incarnation)
            self.worker_out.put(frames.Welcome(frames.PROTOCOL_MAX, "pipeline", 20_000, 256, 1 << 24))

    def _start(self, request: flow_pb.StartFlowRequest, number: int, out: Replies) -> None:
        flow, rows = self._scribe.start(request.flow_id, request.flow_type, request.request_id)
        self._by_run_id[flow.run_id] = flow
        assign = self._scribe.dispatch(flow, request.start_step.step_type, request.input, "", rows)
        started = flow_pb.StartFlowReply(run_id=flow.run_id)

        def reveal() -> None:
            self.worker_out.put(assign)
            out.put(flow_pb.ServerReply(id=number, body=started.SerializeToString()))

        self._journal.submit(Unit(rows, reveal))

    def _wait(self, request: flow_pb.WaitForFlowRequest, number: int, out: Replies) -> None:
        result = self._results.pop(request.flow_id, None)
        if result is None:
            self._waiters[request.flow_id] = (out, number)
        else:
            out.put(flow_pb.ServerReply(id=number, body=result.SerializeToString()))

    def _complete(self, output: frames.Output) -> None:
        token, decision = output.token, output.decision
        if decision is None:
            raise ValueError(f"output of {token.call} has no decision; the bare pipeline knows execute only")
        flow = self._by_run_id[token.run_id]
        rows = self._scribe.complete(flow, token, decision)
        ack = frames.Ack(output.stream, token, True)
        if decision.kind == frames.DECISION_GO_TO:
            reveal = self._next_step(flow, decision.movements[0], ack, rows)
        else:
            reveal = self._close(flow, decision.output, ack, rows)
        self._journal.submit(Unit(rows, reveal))

    def _next_step(self, flow: Flow, movement: frames.Movement, ack: frames.Ack, rows: list[Row]) -> Callable[[], None]:
        assign = self._scribe.dispatch(flow, movement.step_type, movement.input, ack.token.call, rows)

        def reveal() -> None:
            self.worker_out.put(ack)
            self.worker_out.put(assign)

        return reveal

    def _close(self, flow: Flow, output: bytes, ack: frames.Ack, rows: list[Row]) -> Callable[[], None]:
        self._scribe.close(flow, rows)
        del self._by_run_id[flow.run_id]

        def reveal() -> None:
            self.worker_out.put(ack)
            self._answer(flow, ack.token.call, output)

        return reveal

    def _answer(self, flow: Flow, call: str, output: bytes) -> None:
        step_type = call.rpartition("-")[0]
        completion = flow_pb.StepCompletion(step_type=step_type, step_execution_id=call, value=output)
        result = flow_pb.WaitForFlowReply(
            is_terminal=True, first_run_id=flow.run_id, status="COMPLETED", completions=[completion]
        )
        waiter = self._waiters.pop(flow.flow_id, None)
        if waiter is None:
            self._results[flow.flow_id] = result
        else:
            out, number = waiter
            out.put(flow_pb.ServerReply(id=number, body=result.SerializeToString()))
