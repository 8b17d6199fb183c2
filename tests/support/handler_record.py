"""What handlers of any process did, in a file that outlives their SIGKILL: one line for each call that began."""

import os
from pathlib import Path

import msgspec

from tests.support.eventually import DEADLINE_S, eventually


class HandledCall(msgspec.Struct, frozen=True):
    """A handler began."""

    key: str
    """The idempotency key, the same for all attempts and deliveries [ID-9]."""
    run_id: str
    step_execution_id: str
    method: str
    attempt: int
    delivery: int
    worker: str


class HandlerRecord:
    """The file. Each line is one write to a descriptor in append mode, so that lines of processes do not mix."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._descriptor)

    def note(self, call: HandledCall) -> None:
        """Append a line."""
        os.write(self._descriptor, msgspec.json.encode(call) + b"\n")

    def calls(self) -> list[HandledCall]:
        """All calls so far; a line that a kill cut short tells nothing and is left out."""
        lines = self._path.read_bytes().split(b"\n")
        return [msgspec.json.decode(line, type=HandledCall) for line in lines[:-1]]

    async def began(
        self, count: int, *, delivery: int | None = None, attempt: int | None = None, deadline_s: float = DEADLINE_S
    ) -> list[HandledCall]:
        """Return once that many calls began, of one delivery or attempt if it is given."""

        def found() -> list[HandledCall]:
            return [
                call
                for call in self.calls()
                if (delivery is None or call.delivery == delivery) and (attempt is None or call.attempt == attempt)
            ]

        what = f"{count} calls of delivery {delivery}, attempt {attempt}"
        await eventually(lambda: len(found()) >= count, what, deadline_s=deadline_s)
        return found()
