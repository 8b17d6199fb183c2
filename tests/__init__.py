"""Test suites; `tests/README.md` says which folder a test belongs to."""
