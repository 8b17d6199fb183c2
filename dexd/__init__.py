"""The durable execution server.

Layers, imports pointing down only: `api` (bytes to commands), `engine` (the asyncio shell), `codec` and `log` (wire and
storage formats), `core` (every rule, pure). `server` composes them; `cli` is the command `dexd`.
"""
