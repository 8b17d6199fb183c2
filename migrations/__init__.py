"""The schema of the log as forward-only SQL files `NNNN_slug.sql`, shipped as the package `dexd.migrations`.

A released file is never edited; its checksum is recorded in every database that ran it.
Read them with `importlib.resources.files("dexd.migrations")`, which works from a checkout and from a wheel.
"""
