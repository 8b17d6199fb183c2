"""Verbs of `dex flow` that look closer: explain."""

import typer

from dexpb.v1 import flow_service_pb2 as pb
from dextools.cli.flow_documents import blocker_document
from dextools.cli.flow_reads import FlowId
from dextools.cli.invocation import Invocation, verb
from dextools.terminal_text import instant_text, table


def add_look_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
    verb(app, "explain")(explain)


def explain(call: Invocation, flow_id: FlowId) -> None:
    """Show why each active Step does not get on."""
    with call.connection() as connection:
        reply = connection.call(connection.flows.ExplainFlow, pb.ExplainFlowRequest(flow_id=flow_id))
    document = {
        "flow_id": flow_id,
        "blockers": [blocker_document(blocker) for blocker in reply.blockers],
        "omitted_steps": reply.omitted_steps,
    }
    rows = (
        (
            blocker.step_execution_id,
            blocker.kind,
            blocker.text,
            instant_text(blocker.since),
            instant_text(blocker.until),
        )
        for blocker in reply.blockers
    )
    call.output.answer(document, table("step", "kind", "text", "since", "until", rows=rows))
