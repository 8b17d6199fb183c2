"""What simulated clients were told; what is checked against the log at the end [INV-1]."""

from dataclasses import dataclass, field

from dexd.codec.batch_requests import BatchView
from dexd.core.values import FlowStatus


@dataclass(slots=True)
class Acknowledged:
    """What clients were told is durable; compared with the log at the end [INV-1]."""

    starts: dict[str, str] = field(default_factory=dict)
    """Flow ID to run ID."""
    published: dict[str, list[list[str]]] = field(default_factory=dict)
    """Flow ID to the items of each producer, in the producer's order."""
    attributes: dict[str, list[bytes]] = field(default_factory=dict)
    stops: dict[str, FlowStatus] = field(default_factory=dict)
    rpc_items: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)
    """Flow ID to what its increments were answered."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Flow ID to items whose publication was refused, all of it."""
    endings: dict[str, FlowStatus] = field(default_factory=dict)
    """Flow ID to how it ends unless it is stopped; COMPLETED if it is not named."""
    families: dict[str, list[str]] = field(default_factory=dict)
    """Parent to the kinds of its children, in the order of its Wait."""
    kept: dict[str, list[str]] = field(default_factory=dict)
    """Flow ID to the messages that were there to be taken, in order."""
    takes: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Flow ID to who was answered that it took which messages."""
    takes_refused: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Flow ID to who was told that not all of its messages are there."""
    documents: dict[str, bytes] = field(default_factory=dict)
    """Flow ID to the text that must come out."""
    forks: dict[str, list[str]] = field(default_factory=dict)
    """Flow ID to the runs that time travel began."""
    attempts: dict[str, int] = field(default_factory=dict)
    """Flow ID to the runs that its retry policy allows [START-8]."""
    jobs: dict[str, BatchView] = field(default_factory=dict)
    """Job ID to what was told of it last [BATCH-1]."""
    targets: list[str] = field(default_factory=list)
    """Flow IDs that jobs may end in several ways."""
