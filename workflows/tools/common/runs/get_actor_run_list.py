"""`get-actor-run-list`: the caller's runs, or those of one Actor."""

from datetime import datetime

from pydantic import Field

from outlast.activities.storages.contracts import RunItem, RunListInput, RunPage, RunStatus
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, ROW_READERS, Answer, answered, first_offered
from outlast.workflows.tools.answers.wording import describe_list, next_list_hint
from outlast.workflows.tools.core.actor_names import normalised_actor
from outlast.workflows.tools.core.storage_arguments import PageArguments
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class RunListArguments(PageArguments):
    """Which runs."""

    actor: str | None = Field(
        default=None, min_length=1, max_length=200, description="Only runs of this Actor: `user/name` or its id."
    )
    status: RunStatus | None = Field(default=None, description="Return only runs with the provided status.")
    desc: bool = Field(default=True, description="If true, newest first; if false, oldest first.")


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


class RunList(Answer):
    """A page of runs."""

    runs: list[ListedRun]
    count: int = Field(description="Runs on this page.")
    total: int = Field(description="Runs on all pages.")
    offset: int
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")


async def get_actor_run_list(ctx: ToolContext, arguments: RunListArguments) -> ToolResult:
    """Read the page, a run to a line."""
    page = await ctx.storages.runs(
        RunListInput(
            caller=ctx.call.caller,
            actor=normalised_actor(arguments.actor) if arguments.actor else None,
            status=arguments.status,
            offset=arguments.offset,
            limit=arguments.limit,
            desc=arguments.desc,
        )
    )
    return answered(
        _answer(page),
        describe_list("runs", count=len(page.runs), total=page.total, offset=page.offset),
        *(_line(run) for run in page.runs),
        next_list_hint("get-actor-run-list", count=len(page.runs), total=page.total, offset=page.offset),
        _next_step(ctx, page),
    )


def _answer(page: RunPage) -> RunList:
    end = page.offset + len(page.runs)
    return RunList(
        runs=[ListedRun.model_validate(run.model_dump()) for run in page.runs],
        count=len(page.runs),
        total=page.total,
        offset=page.offset,
        next_offset=end if page.runs and end < page.total else None,
    )


def _line(run: RunItem) -> str:
    started = f"{run.started_at:%Y-%m-%d %H:%M:%S}" if run.started_at else "not started"
    cost = f", {run.usage_total_usd:.4f} US dollars" if run.usage_total_usd else ""
    return f"- {run.run_id}: {run.status}, Actor {run.actor_id}, started {started}, dataset {run.dataset_id}{cost}"


def _next_step(ctx: ToolContext, page: RunPage) -> str | None:
    reader = first_offered(ctx.offers, *ROW_READERS)
    if not page.runs:
        return None
    uses = [f"Call {reader} for the rows of one of them."] if reader else []
    if ctx.offers("get-actor-run"):
        uses.append("Call get-actor-run for the details of one of them.")
    return " ".join(uses) or None


GET_ACTOR_RUN_LIST = (
    tool("get-actor-run-list")
    .category(Category.RUNS)
    .describe(
        "List Actor runs of the authenticated user, newest first, optionally of one Actor or status. Statuses: "
        "READY (not allocated), RUNNING (executing), SUCCEEDED, FAILED, TIMING-OUT, TIMED-OUT, ABORTING, ABORTED. Use "
        "it to find a recent run, its dataset or its key-value store."
    )
    .annotate(ToolAnnotations(title="Get Actor run list", read_only=True, idempotent=True, open_world=False))
    .args(RunListArguments)
    .output(RunList)
    .server(get_actor_run_list)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
