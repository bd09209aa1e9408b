"""`get-actor-run`: the state of a run."""

from pydantic import Field
from temporalio import workflow

from outlast.activities.outputs.contracts import DEFAULT_THRESHOLD_BYTES
from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.runtime.executors import INLINE_ROWS
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES
from outlast.workflows.tools.core.run_report import RunReport
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolAnnotations, ToolBuilder, tool


class RunArguments(Arguments):
    """Names a run."""

    run_id: Id = Field(alias="runId", description="Id of the Actor run.")


async def run_with_rows(ctx: ToolContext, run_id: str) -> tuple[RunState, DatasetPage | None]:
    """The run, and what its dataset holds so far: all rows when they are few, else none of them but their number.

    The page is None when the dataset cannot be read, for example because it was deleted since.
    """
    run = await ctx.runs.look_up(run_id)
    request = DatasetItemsInput(
        caller=ctx.call.caller,
        dataset_id=run.dataset_id,
        limit=INLINE_ROWS,
        max_bytes=DEFAULT_THRESHOLD_BYTES,
        whole=True,
        describe_run_store=run.key_value_store_id,
        describe_run_actor=run.actor_id,
    )
    try:
        return run, await ctx.storages.items(request)
    except ToolError as error:
        workflow.logger.info("The rows of run %s cannot be read: %s", run_id, error.envelope.message)
        return run, None


def get_actor_run_definition(handler: Handler, description: str) -> ToolBuilder:
    """The part of `get-actor-run` that all modes share."""
    return (
        tool("get-actor-run")
        .category(Category.RUNS)
        .describe(description)
        .annotate(ToolAnnotations(title="Get Actor run", read_only=True, idempotent=True))
        .args(RunArguments)
        .output(RunReport)
        .server(handler)
        .output_threshold(MAX_ANSWER_BYTES)
        .keep_output_schema()
    )
