"""What the calls of every peer do on the platform: plain functions, wrapped by each peer's app as its users would.

`APIFY_TOKEN` and `APIFY_API_BASE_URL` say where the platform is.
"""

import os
from datetime import timedelta
from typing import Any

from apify_client import ApifyClientAsync

ACTOR = "outlast/sleeper"
_POLL_SECONDS = 60
_client: ApifyClientAsync | None = None


def client() -> ApifyClientAsync:
    """One client per process, with the client's own retries off: retrying is what the peers are for."""
    global _client  # noqa: PLW0603  # it belongs to the event loop of the process, which begins later
    if _client is None:
        url = os.environ["APIFY_API_BASE_URL"]
        _client = ApifyClientAsync(token=os.environ["APIFY_TOKEN"], api_url=url, max_retries=0)
    return _client


async def read_items(dataset_id: str) -> list[dict[str, Any]]:
    """Rows of a dataset: the small call."""
    return (await client().dataset(dataset_id).list_items(limit=20)).items


async def start_run(call_id: str, seconds: float) -> str:
    """The id of a new run, which has to be paid: the call that must not be made twice. Its input names the call."""
    run_input = {"seconds": seconds, "steps": 1, "rows": 1, "message": call_id}
    return (await client().actor(ACTOR).start(run_input=run_input)).id


async def await_run(run_id: str) -> str:
    """The id of the run's dataset, once it has ended."""
    while True:
        run = await client().run(run_id).wait_for_finish(wait_duration=timedelta(seconds=_POLL_SECONDS))
        assert run is not None
        if run.finished_at is not None:
            return run.default_dataset_id
