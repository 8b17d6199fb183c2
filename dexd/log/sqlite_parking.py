"""Parked runs in SQLite: the statements that write their rows, and the reading of them."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from dexd.log import queries
from dexd.log.parking import ChildWait, ParkedCounts, ParkedDeadline, ParkingRow

Statement: TypeAlias = tuple[str, Sequence[object]]


class ParkingReader:
    """The reading half; a mixin of `SqliteReader`."""

    def _rows(self, statement: str, parameters: Sequence[object] | dict[str, object]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def parked_counts(self) -> ParkedCounts:
        return ParkedCounts(*self._rows(queries.parked.PARKED_COUNTS, ())[0])

    def parked_deadlines(self, after: ParkedDeadline, limit: int) -> Sequence[ParkedDeadline]:
        rows = self._rows(queries.parked.PARKED_DEADLINES, (after.at, after.stream_id, limit))
        return [ParkedDeadline(*row) for row in rows]

    def parking_of(self, stream_id: int) -> ParkingRow:
        rows = self._rows(queries.parked.PARKING, (stream_id,))
        if not rows or not rows[0][0]:
            return ParkingRow(stream_id, is_parked=False)
        waits = tuple(ChildWait(*row) for row in self._rows(queries.parked.PARKED_WAITS, (stream_id,)))
        return ParkingRow(stream_id, True, rows[0][1], waits)

    def waits_for(self, child_flow_ids: Sequence[str]) -> Sequence[ChildWait]:
        return [ChildWait(*row) for row in self._rows(queries.parked.PARKED_WAITS_FOR, _json(child_flow_ids))]


def parking_statements(rows: Sequence[ParkingRow]) -> Iterator[Statement]:
    """Bring the rows of runs up to date; their waits are replaced as a whole."""
    parked = [row for row in rows if row.is_parked]
    if parked:
        yield queries.parked.PARK, _json([(row.stream_id, row.wakes_at) for row in parked])
    if len(parked) < len(rows):
        yield queries.parked.UNPARK, _json([row.stream_id for row in rows if not row.is_parked])
    yield queries.parked.REMOVE_PARKED_WAITS, _json([row.stream_id for row in rows])
    waits = [msgspec.structs.astuple(wait) for row in parked for wait in row.waits]
    if waits:
        yield queries.parked.PUT_PARKED_WAITS, _json(waits)


def _json(value: object) -> tuple[str]:
    return (msgspec.json.encode(value).decode(),)
