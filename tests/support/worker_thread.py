"""A worker in a thread of the test, for tests that look at what its handlers see."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dexsdk import BlobCache, PullWorkerOptions, Registry, Worker, WorkerOptions

REGISTERED_S = 10


@contextmanager
def running_worker(registry: Registry, address: str, blob_cache: BlobCache | None = None) -> Iterator[None]:
    """Serve while the block runs; every queue is registered when it begins."""
    pull = PullWorkerOptions(max_concurrent_tasks=8, stop_drain_timeout=5)
    worker = Worker(registry, blob_cache, WorkerOptions(server_address=address, pull=pull))
    thread = threading.Thread(target=worker.start)
    thread.start()
    try:
        worker.wait_pull_registered(REGISTERED_S)
        yield
    finally:
        worker.stop()
        thread.join()
