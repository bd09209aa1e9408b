"""Tools that list the caller's runs, datasets and key-value stores."""

from datetime import datetime
from typing import Any

from pydantic import Field

from outlast.activities.storages.contracts import RunItem, RunListInput, RunPage, RunStatus
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import ROW_READERS, Answer, first_offered, hint
from outlast.workflows.tools.core import storages
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.lists import Listed, ListPage, ListTool, NewestFirstArguments
from outlast.workflows.tools.framework.tool import Category


class RunListArguments(NewestFirstArguments):
    """Runs to list."""

    actor: str | None = Field(
        default=None, min_length=1, max_length=200, description="Only runs of this Actor: `user/name` or its id."
    )
    status: RunStatus | None = Field(default=None, description="Return only runs with the provided status.")


class ListedRun(Answer):
    """A run in a list."""

    run_id: str
    actor_id: str
    status: str
    started_at: datetime | None = None
    finished_at: datetime | None = None
    build_number: str | None = None
    usage_total_usd: float | None = None
    dataset_id: str
    key_value_store_id: str


class RunList(ListPage):
    """A page of runs."""

    runs: list[ListedRun]


class DatasetList(ListPage):
    """A page of datasets."""

    datasets: list[storages.DatasetView]


class KeyValueStoreList(ListPage):
    """A page of key-value stores."""

    key_value_stores: list[storages.StorageView]


async def list_runs(ctx: HandlerContext, arguments: RunListArguments) -> Listed:
    """Read a page of runs, of all Actors or of one."""
    given: dict[str, Any] = arguments.model_dump()
    given["actor"] = normalised_actor(arguments.actor) if arguments.actor else None
    request = RunListInput(caller=ctx.call.caller, **given)
    page = await ctx.storages.runs(request)
    entries = [ListedRun.model_validate(run.model_dump()) for run in page.runs]
    return Listed(entries, [_run_line(run) for run in page.runs], page.total, page.offset, (_run_readers(ctx, page),))


async def list_datasets(ctx: HandlerContext, arguments: storages.StorageListArguments) -> Listed:
    """Read a page of datasets."""
    page = await ctx.storages.datasets(storages.list_input(ctx, arguments))
    read = hint(ctx, "get-dataset-items", "Read one with get-dataset-items.") if page.datasets else None
    return Listed(
        [storages.dataset_view(dataset) for dataset in page.datasets],
        [storages.storage_line(dataset) for dataset in page.datasets],
        page.total,
        page.offset,
        (read, storages.unnamed_hint(arguments, total=page.total)),
    )


async def list_key_value_stores(ctx: HandlerContext, arguments: storages.StorageListArguments) -> Listed:
    """Read a page of key-value stores."""
    page = await ctx.storages.key_value_stores(storages.list_input(ctx, arguments))
    keys = "See the keys of one with get-key-value-store-keys."
    read = hint(ctx, "get-key-value-store-keys", keys) if page.stores else None
    return Listed(
        [storages.store_view(store) for store in page.stores],
        [storages.storage_line(store) for store in page.stores],
        page.total,
        page.offset,
        (read, storages.unnamed_hint(arguments, total=page.total)),
    )


def _run_line(run: RunItem) -> str:
    started = f"{run.started_at:%Y-%m-%d %H:%M:%S}" if run.started_at else "not started"
    cost = f", {run.usage_total_usd:.4f} US dollars" if run.usage_total_usd else ""
    return f"- {run.run_id}: {run.status}, Actor {run.actor_id}, started {started}, dataset {run.dataset_id}{cost}"


def _run_readers(ctx: HandlerContext, page: RunPage) -> str | None:
    reader = first_offered(ctx.offers, *ROW_READERS)
    if not page.runs:
        return None
    uses = [f"Call {reader} for the rows of one of them."] if reader else []
    if ctx.offers("get-actor-run"):
        uses.append("Call get-actor-run for the details of one of them.")
    return " ".join(uses) or None


GET_ACTOR_RUN_LIST = ListTool(
    name="get-actor-run-list",
    category=Category.RUNS,
    title="Get Actor run list",
    description="List Actor runs of the authenticated user, newest first, optionally of one Actor or status. Statuses: "
    "READY (not allocated), RUNNING (executing), SUCCEEDED, FAILED, TIMING-OUT, TIMED-OUT, ABORTING, ABORTED. Use "
    "it to find a recent run, its dataset or its key-value store.",
    arguments=RunListArguments,
    answer=RunList,
    entries="runs",
    read=list_runs,
).build()
GET_DATASET_LIST = ListTool(
    name="get-dataset-list",
    category=Category.STORAGE,
    title="Get dataset list",
    description="List datasets (collections of Actor run data) of the authenticated user, newest first. Actor runs "
    "make datasets without a name: set unnamed=true to include them. Use it to browse datasets and to find one.",
    arguments=storages.StorageListArguments,
    answer=DatasetList,
    entries="datasets",
    read=list_datasets,
).build()
GET_KEY_VALUE_STORE_LIST = ListTool(
    name="get-key-value-store-list",
    category=Category.STORAGE,
    title="Get key-value store list",
    description="List key-value stores of the authenticated user, newest first. Actor runs make stores without a name: "
    "set unnamed=true to include them.",
    arguments=storages.StorageListArguments,
    answer=KeyValueStoreList,
    entries="key_value_stores",
    things="key-value stores",
    read=list_key_value_stores,
).build()
