"""Batch jobs: one operation over all Flows that a query found, durable, slow enough, and once for each [BATCH-1..3].

A job is a stream of its own [ARCH-14]. Which Flows a query finds, and whether it still finds one, is asked outside the
core and comes in with commands; here is decided which target's turn it is and what became of it.
"""
