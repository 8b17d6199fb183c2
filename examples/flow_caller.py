"""What a Step needs to call other Flows: a client.

A client needs the Registry, the Registry needs the Flows, and these need their Steps; so a Step gets this object first,
and the client comes later.
"""

from dexsdk import AsyncClient


class FlowCaller:
    """Lends the process's client to its Steps."""

    def __init__(self) -> None:
        self._client: AsyncClient | None = None

    def connect(self, client: AsyncClient) -> None:
        """Use this client; before the first Flow starts."""
        self._client = client

    @property
    def client(self) -> AsyncClient:
        """The client.

        Raises:
            RuntimeError: there is none yet; the attempt fails, and the next one may find it.
        """
        if self._client is None:
            raise RuntimeError("the process has no client yet")
        return self._client
