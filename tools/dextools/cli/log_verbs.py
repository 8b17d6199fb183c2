"""`dex log`."""

import typer


def add_log_verbs(app: typer.Typer) -> None:
    """Register the verbs."""
