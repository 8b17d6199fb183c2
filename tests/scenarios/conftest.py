"""The flag under which scenarios are written anew instead of compared; the change is then reviewed as a diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-scenarios", action="store_true", help="write what happens now into tests/scenarios")
