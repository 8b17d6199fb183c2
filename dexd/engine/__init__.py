"""The asyncio shell around the kernel: one mailbox, one writer, effects after the commit [ARCH-3].

Everything here runs on one event loop and needs no locks; only the log writer and history readers use other threads.
"""
