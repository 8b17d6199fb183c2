"""Golden interactions: every script says what came of each command, and exactly that must come of it again."""

from pathlib import Path

import pytest

from dexd.core.config import KernelConfig
from tests.scenarios.language import Interpreter
from tests.scenarios.stage import Stage

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
LINES_MAX = 100
"""A script is read in one sitting."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_scenario(script: Path, request: pytest.FixtureRequest) -> None:
    written = script.read_text(encoding="utf-8")
    played = play(written)
    if request.config.getoption("--rewrite-scenarios", default=False):
        script.write_text(played, encoding="utf-8")
    else:
        assert played == written
    assert played.count("\n") <= LINES_MAX


def play(script: str) -> str:
    """The script with what comes of its commands now.

    Lines that begin with `>` are commands, indented ones what came of them; everything else stays as it is.
    """
    # Pings are proved by unit tests; here they would be noise between what a scenario is about.
    interpreter = Interpreter(Stage(KernelConfig(ping_interval_ms=3_600_000)))
    lines: list[str] = []
    for line in script.splitlines():
        if not line.startswith("  "):
            lines.append(line)
        if line.startswith(">"):
            lines += [f"  {output}" for output in interpreter.play(line[1:])]
    return "\n".join(lines) + "\n"
