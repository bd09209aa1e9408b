"""Tools for runs, and the executor of this mode, which answers with the run response."""

import asyncio
from datetime import timedelta
from typing import Any, Literal, cast

from pydantic import JsonValue
from temporalio import workflow

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.runs.contracts import RunSpec
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify import answers
from outlast.workflows.tools.apify.schemas import (
    RUN,
    RUN_LIST,
    WAIT_ARGUMENT,
    WAIT_DEFAULT_SECONDS,
    answer,
    arguments,
    begun,
    flag,
    number,
    reading_tool,
    required_text,
    text,
)
from outlast.workflows.tools.core.lists import entries_of
from outlast.workflows.tools.core.run_report import until_meta
from outlast.workflows.tools.core.schedules import actor_of
from outlast.workflows.tools.framework.executors import describe_run
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

_GET_ACTOR_RUN_DESCRIPTION = """
Get the state of an Actor run: its status, its latest status message, the size of its output, and what to call next.
With waitSecs, the answer comes when the run has ended, or after that time. Read the items with get-dataset-items.
"""
RUN_ID = required_text("Id of the run.")


def no_run(given: dict[str, Any], envelope: ErrorEnvelope) -> str | None:
    """Return the text for a run that does not exist."""
    return f"Run with ID '{unquoted(given['runId'])}' not found." if answers.is_missing(envelope) else None


def not_read(given: dict[str, Any], envelope: ErrorEnvelope) -> str:
    """Return the text for a run that could not be read."""
    failed = f"Failed to get Actor run '{unquoted(given['runId'])}': {answers.platform_message(envelope)}"
    return no_run(given, envelope) or failed


@answers.failing_as(not_read)
async def get_actor_run(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Wait for the given time, and describe the run."""
    wait = int(given.get("waitSecs", WAIT_DEFAULT_SECONDS))
    run = await ctx.platform.run(unquoted(given["runId"]), wait_seconds=wait)
    return await answer_about(ctx, run, actor_name=None, patient=wait > 0)


GET_ACTOR_RUN = reading_tool(
    "get-actor-run",
    "Get Actor run",
    Category.RUNS,
    does=_GET_ACTOR_RUN_DESCRIPTION,
    arguments=arguments({"runId": RUN_ID, "waitSecs": WAIT_ARGUMENT}, required=("runId",)),
    answer=RUN,
    handler=get_actor_run,
)
_GET_ACTOR_RUN_LIST_DESCRIPTION = """
List your Actor runs, a page at a time: of all Actors or of one, in any or in one status. The answer has each run's
id, status, times and storages.
"""
_STATUSES = ("READY", "RUNNING", "SUCCEEDED", "FAILED", "TIMING-OUT", "TIMED-OUT", "ABORTING", "ABORTED")
_DEFAULT_LIMIT = 10


@answers.failing_as(answers.not_there("Actor '{actorId}' not found."))
async def get_actor_run_list(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the platform's page, without nulls for members that are texts by the schema."""
    path = ("acts", unquoted(given["actorId"]), "runs") if given.get("actorId") else ("actor-runs",)
    page = await ctx.platform.get(
        *path,
        offset=int(given.get("offset", 0)),
        limit=int(given.get("limit") or _DEFAULT_LIMIT),
        desc=bool(given.get("desc", False)),
        status=given.get("status"),
    )
    # A run that belongs to no saved task has no `actorTaskId`.
    runs: list[JsonValue] = [
        {name: value for name, value in run.items() if name != "actorTaskId" or value is not None}
        for run in entries_of(page)
    ]
    return answers.only_json({**page, "items": runs})


GET_ACTOR_RUN_LIST = reading_tool(
    "get-actor-run-list",
    "Get user runs list",
    Category.RUNS,
    does=_GET_ACTOR_RUN_LIST_DESCRIPTION,
    arguments=arguments(
        {
            "actorId": required_text("Only runs of this Actor: its id, or `user/name`."),
            "offset": number("Number of runs to skip.", default=0),
            "limit": number("Maximum number of runs.", default=10, maximum=10),
            "desc": flag("Whether the newest come first.", default=False),
            "status": text("Only runs in this status.", enum=[*_STATUSES]),
        }
    ),
    answer=RUN_LIST,
    handler=get_actor_run_list,
)
_GET_ACTOR_RUN_LOG_DESCRIPTION = """
Get the last lines of an Actor run's log: what it is doing, or why it failed. `lines` 0 gives as many as fit.
"""
_DEFAULT_LINES = 10
_ALL_LINES = 100_000


@answers.failing_as(no_run)
async def get_actor_run_log(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the lines unchanged."""
    lines = int(given.get("lines", _DEFAULT_LINES))
    most = ctx.call.output.inline_limit_bytes
    log = await ctx.storages.log(unquoted(given["runId"]), lines=lines if lines > 0 else _ALL_LINES, max_bytes=most)
    return answers.texts({"log": log.text}, log.text)


GET_ACTOR_RUN_LOG = reading_tool(
    "get-actor-run-log",
    "Get Actor run log",
    Category.RUNS,
    does=_GET_ACTOR_RUN_LOG_DESCRIPTION,
    arguments=arguments(
        {
            "runId": text("Id of the run."),
            "lines": number("Lines from the end of the log; 0 for all.", default=_DEFAULT_LINES, maximum=50),
        },
        required=("runId",),
    ),
    answer=answer({"log": text()}, required=("log",)),
    handler=get_actor_run_log,
)
_ABORT_ACTOR_RUN_DESCRIPTION = """
Abort an Actor run that is starting or running. Its output so far is kept. A run that has ended does not change. With
gracefully, the Actor is notified first, and has 30 seconds to finish.
"""


@answers.failing_as(lambda _given, _envelope: None)
async def abort_actor_run(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Abort a run, and answer when the platform reports its end."""
    ended = await ctx.runs.abort(unquoted(given["runId"]), gracefully=bool(given.get("gracefully", False)))
    run = await ctx.platform.run(ended.run_id)
    run = {name: value for name, value in run.items() if name != "exitCode"}
    storages = answers.RunStorages.named_in(run).of_default_alone()
    return answers.run_answer(
        run,
        storages,
        actor_name=None,
        summary=answers.summary_of(run, storages),
        next_step=answers.next_step_of(run, storages, ctx.offers),
    )


ABORT_ACTOR_RUN = (
    begun(
        "abort-actor-run",
        Category.RUNS,
        ToolAnnotations(title="Abort Actor run", destructive=True, idempotent=True, open_world=False),
        does=_ABORT_ACTOR_RUN_DESCRIPTION,
        arguments=arguments(
            {
                "runId": required_text("Id of the run."),
                "gracefully": flag("Whether the Actor is notified first, and may finish."),
            },
            required=("runId",),
        ),
        answer=RUN,
    )
    .server(abort_actor_run)
    .build()
)
_MAX_KEYS = 50
_PAUSES_SECONDS = (1, 2, 2)
"""Pauses before an empty dataset of a succeeded run is read again, because its count lags its items."""


class RunResponseExecutor:
    """Returns after the run has ended. An entry point that does not wait so long answers with `get-actor-run`."""

    kind: Literal["sync", "async"] = "sync"

    async def execute_actor_tool(self, ctx: HandlerContext, params: RunSpec) -> ToolResult:
        """Start the run, follow it to its end, and describe it. A failed run does not fail the call."""
        started = await ctx.runs.start(params)
        ctx.say(describe_run(started))
        ended = await ctx.runs.finish(started, params.budget)
        ctx.say(describe_run(ended))
        run = await ctx.platform.run(ended.run_id)
        named = params.actor if "/" in params.actor else None
        answer = await answer_about(ctx, run, actor_name=named, patient=True)
        return answer.model_copy(update={"meta": {**answer.meta, **until_meta(ended)}})


async def answer_about(
    ctx: HandlerContext, run: JsonObject, *, actor_name: str | None, patient: bool, next_step: str | None = None
) -> ToolResult:
    """Return the run response with the content of the storages. `patient`: an empty dataset is read again.

    `next_step` replaces the next step that depends on the run.
    """
    storages, name = await asyncio.gather(read_storages(ctx, run, patient=patient), name_of_actor(ctx, run, actor_name))
    answer = answers.run_answer(
        run,
        storages,
        actor_name=name,
        summary=answers.summary_of(run, storages),
        next_step=next_step or answers.next_step_of(run, storages, ctx.offers),
    )
    return answers.with_usage(answer, run)


async def read_storages(ctx: HandlerContext, run: JsonObject, *, patient: bool) -> answers.RunStorages:
    """Read the current content of the run's storages. A storage that cannot be read is only its ID."""
    ids = answers.RunStorages.named_in(run)
    share = ctx.call.output.inline_limit_bytes // (2 * len(ids.datasets))
    datasets = asyncio.gather(*(_dataset(ctx, str(each["id"]), share) for each in ids.datasets.values()))
    stores = asyncio.gather(
        *(_store(ctx, str(each["id"]), with_keys=answers.is_final(run)) for each in ids.stores.values())
    )
    read = answers.RunStorages(
        dict(zip(ids.datasets, await datasets, strict=True)), dict(zip(ids.stores, await stores, strict=True))
    )
    if patient and run.get("status") == "SUCCEEDED":
        for pause in _PAUSES_SECONDS:
            if read.datasets[answers.DEFAULT].get("itemCount") != 0:
                break
            await workflow.sleep(timedelta(seconds=pause))
            read.datasets[answers.DEFAULT] = await _dataset(ctx, str(ids.datasets[answers.DEFAULT]["id"]), share)
    return read


async def _dataset(ctx: HandlerContext, dataset_id: str, limit_bytes: int) -> JsonObject:
    """Describe a dataset, with as many names of fields as fit into `limit_bytes`."""
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
        "fields": answers.first_that_fit(dotted(found.get("fields")), limit_bytes) or None,
    }
    return {name: value for name, value in described.items() if value is not None}


def dotted(fields: object) -> list[str]:
    """Return the platform's names of fields (`a/0/b`) as paths with dots, without indices of arrays, each once."""
    names = cast(list[object], fields) if isinstance(fields, list) else []
    paths = (".".join(part for part in str(name).split("/") if not part.isdecimal()) for name in names)
    return list(dict.fromkeys(path for path in paths if path))


async def _store(ctx: HandlerContext, store_id: str, *, with_keys: bool) -> JsonObject:
    if not with_keys:
        return {"id": store_id}
    try:
        page = await ctx.platform.get("key-value-stores", store_id, "keys", limit=_MAX_KEYS)
    except ToolError as error:
        workflow.logger.info("Key-value store %s cannot be read: %s", store_id, error.envelope.message)
        return {"id": store_id}
    keys = [entry.get("key") for entry in entries_of(page)]
    described: JsonObject = {"id": store_id, "keys": keys} if keys else {"id": store_id}
    return described if page.get("isTruncated") else {**described, "keyCount": len(keys)}


async def name_of_actor(ctx: HandlerContext, run: JsonObject, known: str | None) -> str | None:
    """Return the Actor as `user/name`; None if it cannot be read."""
    if known is not None:
        return known
    try:
        return (await actor_of(ctx, str(run.get("actId"))))[1]
    except ToolError as error:
        workflow.logger.info("The Actor of run %s cannot be read: %s", run.get("id"), error.envelope.message)
        return None


TOOLS = (GET_ACTOR_RUN, GET_ACTOR_RUN_LIST, GET_ACTOR_RUN_LOG, ABORT_ACTOR_RUN)
