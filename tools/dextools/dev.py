"""`make dev`: a server and a worker with the example Flows until Ctrl+C [SURF-3]."""

import argparse
import signal
import sys
from pathlib import Path

from dextools.local_processes import start_server, start_worker


def main() -> None:
    """Run both, say where, and end when asked to or when the worker ends; exit code 1 if one of them does not start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("dexd-data"), help="default ./dexd-data")
    parser.add_argument("--listen", default="127.0.0.1:8801", help="default 127.0.0.1:8801")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        serve(options.data_dir.absolute(), options.listen)
    except KeyboardInterrupt:
        print("stopped")
    except RuntimeError as error:
        sys.exit(str(error))


def serve(data_dir: Path, listen: str) -> None:
    """Run both until the worker ends.

    Raises:
        RuntimeError: one of them does not start.
    """
    log = data_dir.with_name(f"{data_dir.name}.log")
    with start_server(data_dir, listen, log) as server:
        address = server.ready["address"]
        with start_worker(address, log) as worker:
            print(f"dexd listens on {address}, data in {data_dir}, logs in {log}")
            print(f"a worker serves the Flows of examples/ (pid {worker.pid})")
            print(f"try: dex flow list --server {address}     end: Ctrl+C", flush=True)
            print(f"the worker ended with exit code {worker.wait()}, see {log}")


if __name__ == "__main__":
    main()
