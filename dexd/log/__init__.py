"""The durable, ordered event log of one partition, and what is derived from it in the same transaction."""
