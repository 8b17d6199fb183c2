"""Transactions, checkpoints, and the write that tells whether any is possible."""

BEGIN = "BEGIN IMMEDIATE"
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
BEGIN_READING = "BEGIN"
CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
CHECKPOINT_PATIENTLY = "PRAGMA wal_checkpoint(RESTART)"
PROBE = "UPDATE probe SET writes = writes + 1"
