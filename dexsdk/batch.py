"""Batch jobs: one operation over all Flows that a query finds [BATCH-1..3]."""

from typing import Any, TypeVar, Unpack, overload

from dexsdk._batch_verbs import BatchGuard, BatchVerbs
from dexsdk._carriers import AsyncCarrier, BlockingCarrier
from dexsdk.attribute import Attribute, AttributeMap
from dexsdk.batch_results import BatchInfo, BatchPage
from dexsdk.channel import Channel, ChannelMap
from dexsdk.options import StopFlowOptions
from dexsdk.time_travel import TimeTravelOptions

T = TypeVar("T")


class Batch:
    """One operation over all Flows that a query finds; `client.batch`.

    The Flows are fixed when the job begins. When its turn comes, so many a second, each is looked at again: one that
    the query does not find any more is skipped, and no Flow is applied to twice. A job goes on by itself over restarts
    of the server; `describe` tells how far it is.

    Every call that begins a job takes ``dry_run``, ``all_flows`` and ``rate``.

    Raises:
        ValueError: the query is empty without ``all_flows=True``.
        InvalidQueryError: the query cannot be read, or names a field that nobody knows.
        ValueTooLargeError: the query finds more than 100,000 Flows.
    """

    def __init__(self, carrier: BlockingCarrier, verbs: BatchVerbs) -> None:
        self._carrier = carrier
        self._verbs = verbs

    def stop(self, query: str, options: StopFlowOptions | None = None, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """Stop every Flow that the query finds; one that is closed already is skipped."""
        return self._carrier.carry(self._verbs.stop(query, options, guard))

    @overload
    def publish(self, query: str, channel: Channel[T], /, *values: T, **guard: Unpack[BatchGuard]) -> BatchInfo: ...
    @overload
    def publish(
        self, query: str, channel: ChannelMap[T], instance: str, /, *values: T, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    def publish(self, query: str, channel: Any, *arguments: Any, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """Publish the messages to every Flow that the query finds, in order and all or none for each."""
        return self._carrier.carry(self._verbs.publish(query, channel, arguments, guard))

    @overload
    def set_attribute(
        self, query: str, attribute: Attribute[T], value: T | None, /, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    @overload
    def set_attribute(
        self, query: str, attribute: AttributeMap[T], instance: str, value: T | None, /, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    def set_attribute(self, query: str, attribute: Any, *arguments: Any, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """Write an Attribute of every Flow that the query finds; None deletes it."""
        return self._carrier.carry(self._verbs.set_attribute(query, attribute, arguments, guard))

    def time_travel(self, query: str, options: TimeTravelOptions, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """Let every Flow that the query finds go on from an earlier point, open or closed."""
        return self._carrier.carry(self._verbs.time_travel(query, options, guard))

    def describe(self, batch_id: str) -> BatchInfo:
        """Tell how a job stands; DexServiceError with code NOT_FOUND if there is none of that ID."""
        return self._carrier.carry(self._verbs.describe(batch_id))

    def cancel(self, batch_id: str) -> BatchInfo:
        """Let a job apply nothing more; no effect on one that is closed."""
        return self._carrier.carry(self._verbs.cancel(batch_id))

    def list(self, page_size: int = 100, token: str = "") -> BatchPage:
        """Tell jobs, newest first, at most 100 a page."""
        return self._carrier.carry(self._verbs.list(page_size, token))


class AsyncBatch:
    """The calls of Batch as coroutines."""

    def __init__(self, carrier: AsyncCarrier, verbs: BatchVerbs) -> None:
        self._carrier = carrier
        self._verbs = verbs

    async def stop(self, query: str, options: StopFlowOptions | None = None, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """See Batch."""
        return await self._carrier.carry(self._verbs.stop(query, options, guard))

    @overload
    async def publish(
        self, query: str, channel: Channel[T], /, *values: T, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    @overload
    async def publish(
        self, query: str, channel: ChannelMap[T], instance: str, /, *values: T, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    async def publish(self, query: str, channel: Any, *arguments: Any, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """See Batch."""
        return await self._carrier.carry(self._verbs.publish(query, channel, arguments, guard))

    @overload
    async def set_attribute(
        self, query: str, attribute: Attribute[T], value: T | None, /, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    @overload
    async def set_attribute(
        self, query: str, attribute: AttributeMap[T], instance: str, value: T | None, /, **guard: Unpack[BatchGuard]
    ) -> BatchInfo: ...
    async def set_attribute(
        self, query: str, attribute: Any, *arguments: Any, **guard: Unpack[BatchGuard]
    ) -> BatchInfo:
        """See Batch."""
        return await self._carrier.carry(self._verbs.set_attribute(query, attribute, arguments, guard))

    async def time_travel(self, query: str, options: TimeTravelOptions, **guard: Unpack[BatchGuard]) -> BatchInfo:
        """See Batch."""
        return await self._carrier.carry(self._verbs.time_travel(query, options, guard))

    async def describe(self, batch_id: str) -> BatchInfo:
        """See Batch."""
        return await self._carrier.carry(self._verbs.describe(batch_id))

    async def cancel(self, batch_id: str) -> BatchInfo:
        """See Batch."""
        return await self._carrier.carry(self._verbs.cancel(batch_id))

    async def list(self, page_size: int = 100, token: str = "") -> BatchPage:
        """See Batch."""
        return await self._carrier.carry(self._verbs.list(page_size, token))
