"""Some of everything that is done in bulk: a batch, a schedule, answers used again, and webhooks that hear of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from tests.support.calls.batches import carried_out, sleepers
from tests.support.calls.schedules import fired, scheduled
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.calls.webhooks import subscribed
from tests.support.http.webhooks import receiving_webhooks
from tests.support.ports import free_port

_SCHEDULE = "in-bulk"
_ITEMS = 8
_OPTIONS = {"reuse": {"max_age": "1h"}, "budget": {"max_total_charge_usd": "0.01"}}


@dataclass(frozen=True)
class Bulk:
    """Webhooks and a schedule that are there already."""

    api: httpx.AsyncClient

    async def work(self) -> None:
        """One batch, one of whose items fails, twice; a call, twice; and a firing."""
        body = sleepers(_ITEMS, options=_OPTIONS)
        body["items"][0]["arguments"]["input"]["failWith"] = {"exitCode": 1}
        for _ in range(2):
            await carried_out(self.api, body)
        call = {**sleeper_call(0, message="the same"), "options": _OPTIONS}
        for _ in range(2):
            await completed(self.api, call)
        await fired(self.api, _SCHEDULE)


@asynccontextmanager
async def working_in_bulk(api: httpx.AsyncClient) -> AsyncIterator[Bulk]:
    """Subscribe one receiver that answers and one that nobody has started. The API must allow private addresses."""
    nobody = f"http://127.0.0.1:{free_port()}/nobody"
    with receiving_webhooks() as receiver:
        webhooks = [await subscribed(api, url, batch_items=True) for url in (receiver.url, nobody)]
        await scheduled(api, _SCHEDULE, call={"tool": "get-dataset-list", "arguments": {}})
        try:
            yield Bulk(api)
        finally:
            for webhook in webhooks:
                await api.delete(f"/v1/webhooks/{webhook['id']}")
            await api.delete(f"/v1/schedules/{_SCHEDULE}")
