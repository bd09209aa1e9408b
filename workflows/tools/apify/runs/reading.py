"""Reading a run and what its storages hold, and the answer about both."""

import asyncio
from datetime import timedelta
from typing import cast

from temporalio import workflow

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.apify.answers.blocks import first_that_fit
from outlast.workflows.tools.apify.answers.run import (
    DEFAULT,
    RunStorages,
    is_final,
    next_step_of,
    run_answer,
    summary_of,
    with_usage,
)
from outlast.workflows.tools.core.platform_references import actor_of

_MAX_KEYS = 50
_PAUSES_SECONDS = (1, 2, 2)
"""How long to wait before an empty dataset of a run that succeeded is looked at again: its count lags its items."""


async def answer_about(
    ctx: ToolContext, run: JsonObject, *, actor_name: str | None, patient: bool, next_step: str | None = None
) -> ToolResult:
    """The run response, with what is read of the storages. `patient`: an empty dataset is looked at again.

    `next_step`: what to do next, where that does not depend on the run.
    """
    storages, name = await asyncio.gather(read_storages(ctx, run, patient=patient), name_of_actor(ctx, run, actor_name))
    answer = run_answer(
        run,
        storages,
        actor_name=name,
        summary=summary_of(run, storages),
        next_step=next_step or next_step_of(run, storages, ctx.offers),
    )
    return with_usage(answer, run)


async def read_storages(ctx: ToolContext, run: JsonObject, *, patient: bool) -> RunStorages:
    """What the run's storages hold so far. One that cannot be read is its id."""
    ids = RunStorages.named_in(run)
    share = ctx.call.output.inline_limit_bytes // (2 * len(ids.datasets))
    datasets = asyncio.gather(*(_dataset(ctx, str(each["id"]), share) for each in ids.datasets.values()))
    stores = asyncio.gather(*(_store(ctx, str(each["id"]), with_keys=is_final(run)) for each in ids.stores.values()))
    read = RunStorages(
        dict(zip(ids.datasets, await datasets, strict=True)), dict(zip(ids.stores, await stores, strict=True))
    )
    if patient and run.get("status") == "SUCCEEDED":
        for pause in _PAUSES_SECONDS:
            if read.datasets[DEFAULT].get("itemCount") != 0:
                break
            await workflow.sleep(timedelta(seconds=pause))
            read.datasets[DEFAULT] = await _dataset(ctx, str(ids.datasets[DEFAULT]["id"]), share)
    return read


async def _dataset(ctx: ToolContext, dataset_id: str, limit_bytes: int) -> JsonObject:
    """What is told of a dataset: the names of its fields as far as they fit into `limit_bytes`."""
    try:
        found = await ctx.platform.get("datasets", dataset_id)
    except ToolError as error:
        workflow.logger.info("Dataset %s cannot be read: %s", dataset_id, error.envelope.message)
        return {"id": dataset_id}
    stats = found.get("stats")
    described: JsonObject = {
        "id": dataset_id,
        "name": found.get("name") or None,
        "title": found.get("title") or None,
        "itemCount": found.get("itemCount"),
        "inflatedBytes": (stats.get("inflatedBytes") if isinstance(stats, dict) else None) or None,
        "fields": first_that_fit(dotted(found.get("fields")), limit_bytes) or None,
    }
    return {name: value for name, value in described.items() if value is not None}


def dotted(fields: object) -> list[str]:
    """The platform's names of fields (`a/0/b`) as paths with dots, without indices of arrays, each once."""
    if not isinstance(fields, list):
        return []
    named = (cast(list[object], fields)[place] for place in range(len(cast(list[object], fields))))
    paths = (".".join(part for part in str(name).split("/") if not part.isdecimal()) for name in named)
    return list(dict.fromkeys(path for path in paths if path))


async def _store(ctx: ToolContext, store_id: str, *, with_keys: bool) -> JsonObject:
    if not with_keys:
        return {"id": store_id}
    try:
        page = await ctx.platform.get("key-value-stores", store_id, "keys", limit=_MAX_KEYS)
    except ToolError as error:
        workflow.logger.info("Key-value store %s cannot be read: %s", store_id, error.envelope.message)
        return {"id": store_id}
    items = page.get("items")
    keys = [entry.get("key") for entry in items if isinstance(entry, dict)] if isinstance(items, list) else []
    described: JsonObject = {"id": store_id, "keys": keys} if keys else {"id": store_id}
    return described if page.get("isTruncated") else {**described, "keyCount": len(keys)}


async def name_of_actor(ctx: ToolContext, run: JsonObject, known: str | None) -> str | None:
    """The Actor as `user/name`; None when it cannot be looked up."""
    if known is not None:
        return known
    try:
        _, name = await actor_of(ctx, str(run.get("actId")))
    except ToolError as error:
        workflow.logger.info("The Actor of run %s cannot be read: %s", run.get("id"), error.envelope.message)
        return None
    return name
