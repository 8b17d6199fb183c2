"""Test Flows in milliseconds: a server, a Worker and a client in one process, on a clock that the test turns [TEST-1].

`start_env` for coroutines, `start_env_sync` for plain functions. The server is the real one, without its sockets and
its disk; it comes with the package `dexd`.
"""

from dexsdk.testing._environment import Environment, start_env
from dexsdk.testing._sync_environment import SyncEnvironment, start_env_sync

__all__ = ["Environment", "SyncEnvironment", "start_env", "start_env_sync"]
