"""The operator's command `dex`.

It has no Registry and no Flow code: it speaks the gRPC services with values as JSON text, or reads a data directory
offline. Layers: `app` puts the verbs together, the `*_verbs` modules hold one function per verb, `invocation` gives
each of them the global options, the connection and the output, and turns failures into exit codes [SURF-20].
"""

from dextools.cli.app import main

__all__ = ["main"]
