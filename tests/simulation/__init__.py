"""Seeded, deterministic simulation of a whole system on virtual time."""
