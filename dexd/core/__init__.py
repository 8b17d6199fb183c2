"""The pure core: every rule of dexd, and nothing that touches the world [ARCH-1].

The contract with the shell (`dexd.engine`):

1. Hand each command to `Kernel.handle(command, now=...)`; `now` never runs backwards.
2. Append the events of the `Outcome` to the log; the kernel has already folded them into its live state.
3. Perform the effects and release the reply only after that append is committed, in the order of the outcomes [ARCH-3].
4. If the append fails, throw the kernel away and rebuild it from the log [ARCH-4].
5. Call `Kernel.handle(Tick(), now=...)` when `Kernel.next_deadline()` is due.

Nothing in here imports asyncio, time, random, uuid, os, sqlite3, grpc, logging or threading.
"""
