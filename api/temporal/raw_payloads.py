"""Payloads of histories as the Temporal UI and CLI ask for them: decrypted, but not converted to values."""

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.common import RawValue

from outlast.api.temporal.errors import temporal_errors


class RawPayloads:
    """Opens what Temporal keeps, and what it keeps a reference to. What is sealed stays sealed."""

    def __init__(self, client: Client) -> None:
        """Open payloads as `client` does."""
        self.namespace = client.namespace
        self._converter = client.data_converter

    async def opened(self, payloads: Sequence[Payload], *, fetch: bool) -> list[Payload]:
        """Each payload without its encryption; with `fetch` also those that are in the store, else their references.

        Raises `TaskDataLost` and `TaskDataUnavailable`.
        """
        return [
            await self._opened(payload) if fetch or not payload.external_payloads else payload for payload in payloads
        ]

    async def _opened(self, payload: Payload) -> Payload:
        with temporal_errors():
            [raw] = await self._converter.decode([payload], [RawValue])
        return raw.payload
