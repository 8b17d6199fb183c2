"""The session calls of the two services, for processes that speak the protocol without the SDK."""

import grpc
from google.protobuf.message import Message

from dexpb.v1 import flow_service_pb2 as flow_pb
from dexpb.v1 import worker_service_pb2 as worker_pb

ClientCall = grpc.aio.StreamStreamCall[Message, flow_pb.ServerBatch]
WorkerCall = grpc.aio.StreamStreamCall[Message, worker_pb.SessionBatch]


def open_client_session(channel: grpc.aio.Channel) -> ClientCall:
    """Opens FlowService.Session; to be written to with ClientBatch."""
    stream = channel.stream_stream(
        "/dexpb.v1.FlowService/Session",
        request_serializer=flow_pb.ClientBatch.SerializeToString,
        response_deserializer=flow_pb.ServerBatch.FromString,
    )
    return stream()


def open_worker_session(channel: grpc.aio.Channel) -> WorkerCall:
    """Opens WorkerService.Session; to be written to with SessionBatch."""
    stream = channel.stream_stream(
        "/dexpb.v1.WorkerService/Session",
        request_serializer=worker_pb.SessionBatch.SerializeToString,
        response_deserializer=worker_pb.SessionBatch.FromString,
    )
    return stream()
