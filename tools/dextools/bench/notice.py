"""The lines by which a process of the benchmark tells its parent where it stands: one JSON object each, on stdout."""

import sys

import msgspec


def announce(event: str, **fields: object) -> None:
    """Writes one line and flushes it; ``server_ready`` has the shape of the product's own line [SURF-11]."""
    sys.stdout.write(msgspec.json.encode({"event": event, **fields}).decode() + "\n")
    sys.stdout.flush()
