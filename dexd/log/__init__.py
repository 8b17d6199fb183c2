"""The durable, ordered event log of one partition, and what is derived from it in the same transaction.

`event_log` is the port; `sqlite_log` keeps the log in a file, `memory_log` in memory. One thread appends, `writer`'s;
any thread reads. Payloads are opaque bytes, and rows mean nothing here: rules are the core's, encodings the codec's
[ARCH-10, ARCH-12, ARCH-15].
"""
