"""Starting a run of a saved task: apify-client takes its input as a dict only, and large inputs are texts by then."""

from datetime import timedelta
from typing import Any

from outlast.activities.platform import apify

_PARAMETERS = {
    "build": "build",
    "memory_mbytes": "memory",
    "max_items": "maxItems",
    "max_total_charge_usd": "maxTotalChargeUsd",
}
"""Options of a start, and parameters of the request (Apify API v2, `POST /v2/actor-tasks/:actorTaskId/runs`)."""


async def start_saved_task(
    client: "apify.ApifyClientAsync", url: str, options: dict[str, Any], *, timeout: timedelta
) -> "apify.Run":
    """The run; options that are None are as they were saved. Raises what apify-client raises."""
    seconds = options["run_timeout"]
    given = {name: options[option] for option, name in _PARAMETERS.items()}
    given["timeout"] = round(seconds.total_seconds()) if seconds is not None else None
    response = await client.http_client.call(
        method="POST",
        url=url,
        headers={"Content-Type": options["content_type"]},
        params={name: value for name, value in given.items() if value is not None} or None,
        data=options["run_input"],
        timeout=timeout,
    )
    return apify.Run.model_validate(response.json()["data"])
