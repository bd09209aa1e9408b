"""`call-actor-widget`: run an Actor, and show the run to the user. The answer never waits for the run's end."""

from typing import Any, Literal

from temporalio import workflow

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.runs.contracts import RunSpec, RunState
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.runtime.executors import describe_run
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.apify.actors.call_actor import RUN_ARGUMENTS, not_called, options_of
from outlast.workflows.tools.apify.answers.failures import failed, failing_as
from outlast.workflows.tools.apify.answers.run import RunStorages, run_answer, summary_of
from outlast.workflows.tools.apify.definition import begun
from outlast.workflows.tools.apify.runs.reading import name_of_actor
from outlast.workflows.tools.apify.schemas.build import arguments, text
from outlast.workflows.tools.apify.schemas.runs import RUN
from outlast.workflows.tools.apify.widgets.get_actor_run import FOLLOWS_ITSELF
from outlast.workflows.tools.apify.widgets.pages import RUN_PAGE
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.call_actor import run_spec
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

DESCRIPTION = """
Run an Actor by its name `user/name`, with an input that fits its own input schema, and show the user the run in a
widget, which follows it to its end by itself. The answer comes when the run has begun. For a user who wants to watch
("run apify/web-scraper and show me how it goes"); otherwise use call-actor, which does the same without a widget.
Read what the run has written with get-dataset-items when the user says that it has ended.
"""


class ShownRunExecutor:
    """Answers when the run has begun; the workflow follows it to its end, as that of any call."""

    kind: Literal["sync", "async"] = "async"

    async def execute_actor_tool(self, ctx: ToolContext, params: RunSpec) -> ToolResult:
        """Start the run, and describe its begin."""
        started = await ctx.runs.start(params)
        ctx.say(describe_run(started))
        ctx.guard(started, params.budget)
        run = await _as_begun(ctx, started)
        storages = RunStorages.named_in(run)
        answer = run_answer(
            run,
            storages,
            actor_name=await name_of_actor(ctx, run, params.actor if "/" in params.actor else None),
            summary=summary_of(run, storages),
            next_step=FOLLOWS_ITSELF,
        )
        return RUN_PAGE.showing(answer, f"The run of {params.actor}, as it goes on")


async def _as_begun(ctx: ToolContext, started: RunState) -> JsonObject:
    """The platform's object of the run, as far as it belongs to its begin, with its storages by alias."""
    run: JsonObject = {
        "id": started.run_id,
        "actId": started.actor_id,
        "status": started.status,
        "startedAt": started.model_dump(mode="json")["started_at"],
        "defaultDatasetId": started.dataset_id,
        "defaultKeyValueStoreId": started.key_value_store_id,
    }
    try:
        found = await ctx.platform.run(started.run_id)
    except ToolError as error:  # The run has begun all the same, and the call must not be repeated.
        workflow.logger.info("Run %s cannot be read: %s", started.run_id, error.envelope.message)
        return run
    return {**run, "startedAt": found.get("startedAt"), "storageIds": found.get("storageIds")}


_EXECUTOR = ShownRunExecutor()


@failing_as(not_called, search="search-actors")
async def call_actor_widget(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """Run the Actor. A tool of one that is an MCP server has no run to be shown."""
    actor, mcp_tool = split_actor_tool(unquoted(given["actor"]))
    if mcp_tool is not None:
        message = f"{ctx.call.tool} does not render widgets for MCP tool calls."
        instead = "Nothing was called. Call `user/name:tool` with call-actor."
        return failed(
            ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, message, hint=instead), message, instead
        )
    spec = run_spec(ctx, actor, given.get("input") or {}, options_of(ctx, given))
    return await _EXECUTOR.execute_actor_tool(ctx, spec)


CALL_ACTOR_WIDGET = (
    begun(
        "call-actor-widget",
        Category.UI,
        ToolAnnotations(title="Call Actor (widget)", destructive=True, idempotent=False, open_world=True),
        does=DESCRIPTION,
        arguments=arguments(
            {"actor": text("The Actor: `user/name`, for example apify/rag-web-browser."), **RUN_ARGUMENTS},
            required=("actor", "input"),
        ),
        answer=RUN,
    )
    .server(call_actor_widget, calls_actor=True)
    .answers_at_start()
    .twin_of("call-actor")
    .meta(**RUN_PAGE.meta())
    .build()
)
