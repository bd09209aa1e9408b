"""The report of a run, which all tools for runs return, and the shared part of `get-actor-run`."""

from datetime import datetime

from pydantic import Field, JsonValue
from temporalio import workflow

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.contracts import DEFAULT_THRESHOLD_BYTES, StoredOutput
from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.workflows.contracts.tool_calls import UNTIL_META, Offers, offers_all
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import Answer, OutputFacts, output_facts
from outlast.workflows.tools.framework.executors import INLINE_ROWS
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolBuilder, limited_tool, reads

_FAILURES = {"FAILED": ErrorCategory.UNKNOWN, "TIMED-OUT": ErrorCategory.TIMEOUT, "ABORTED": ErrorCategory.CANCELLED}


class DefaultDataset(Answer):
    """The run's default dataset. `itemCount` and `fields` are known once rows were read."""

    id: str
    item_count: int | None = None
    fields: list[str] | None = None
    items_schema: dict[str, JsonValue] | None = Field(
        default=None, description="JSON Schema of the rows that were read; of a large schema, only the top."
    )


class DefaultKeyValueStore(Answer):
    """The run's default key-value store."""

    id: str
    keys: list[str] | None = Field(default=None, description="Its first keys.")


class Datasets(Answer):
    """Datasets of a run by name."""

    default: DefaultDataset


class KeyValueStores(Answer):
    """Key-value stores of a run by name."""

    default: DefaultKeyValueStore


class Storages(Answer):
    """Storages of the run."""

    datasets: Datasets
    key_value_stores: KeyValueStores


class RunReport(Answer):
    """A run, where its results are, and what to do next."""

    run_id: str | None = Field(default=None, description="Absent while the run has not started.")
    actor_id: str | None = None
    actor_name: str | None = None
    status: str
    status_message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = Field(default=None, description="Of the Actor's process; absent before the run's end.")
    build_number: str | None = None
    options: dict[str, JsonValue] | None = Field(
        default=None, description="How it was started: build, timeoutSecs, memoryMbytes, limits."
    )
    stats: dict[str, JsonValue] = Field(default={})
    usage_total_usd: float | None = Field(default=None, description="US dollars; settles shortly after the run's end.")
    storages: Storages | None = None
    items: list[JsonValue] | None = Field(
        default=None, description="The rows of the dataset; with `locator` the first ones, long values cut."
    )
    compressed: bool | None = Field(default=None, description="True if the rows were stored instead of returned.")
    locator: str | None = Field(default=None, description="Names the stored rows.")
    output: OutputFacts | None = Field(default=None, description="What is stored under the locator.")
    summary: str
    next_step: str
    task_id: str | None = Field(default=None, description="The task, if it continues after this answer.")


_OF_RUN = {
    *("run_id", "actor_id", "status", "status_message", "started_at", "finished_at", "exit_code", "build_number"),
    *("stats", "usage_total_usd"),
}
"""Fields that a report has of a run as they are."""


def build_run_report(
    run: RunState,
    *,
    summary: str,
    next_step: str,
    page: DatasetPage | None = None,
    actor_name: str | None = None,
    output: StoredOutput | None = None,
) -> RunReport:
    """Describe `run`, with the rows of `page` that were read, or the `output` in which all were stored."""
    dataset = DefaultDataset(id=run.dataset_id)
    store = DefaultKeyValueStore(id=run.key_value_store_id)
    if page:
        dataset = DefaultDataset(
            id=run.dataset_id, item_count=page.total, fields=list(page.fields), items_schema=page.items_schema
        )
        store = store.model_copy(update={"keys": None if page.keys is None else list(page.keys)})
    report = RunReport(
        **run.model_dump(include=_OF_RUN),
        actor_name=run.actor_name or actor_name or (page.actor_name if page else None),
        options=run.options or None,
        storages=Storages(datasets=Datasets(default=dataset), key_value_stores=KeyValueStores(default=store)),
        items=list(page.items) if page and (page.items or page.total == 0) else None,
        summary=summary,
        next_step=next_step,
    )
    if output is None:
        return report
    return report.model_copy(update={"compressed": True, "locator": output.locator, "output": output_facts(output)})


def run_failure(run: RunState, *, tool: str, offers: Offers = offers_all) -> ErrorEnvelope | None:
    """Return the error for a run that failed; None for any other run, and for one that met its stop condition."""
    category = _FAILURES.get(run.status) if run.until_met is None else None
    if category is None:
        return None
    reason = f": {run.status_message}" if run.status_message else ""
    log = f"Read the end of its log with get-actor-log (runId {run.run_id}). " if offers("get-actor-log") else ""
    hint = f"{log}Rows so far are in dataset {run.dataset_id}."
    return ErrorEnvelope.permanent(category, tool, f"Run {run.run_id} ended as {run.status}{reason}", hint=hint)


def until_meta(run: RunState) -> dict[str, JsonValue]:
    """Return the meta of an answer about a run that met its stop condition; empty for any other."""
    return {UNTIL_META: run.until_met.model_dump(mode="json", exclude_none=True)} if run.until_met is not None else {}


class RunArguments(Arguments):
    """A run."""

    run_id: Id = Field(alias="runId", description="Id of the Actor run.")


async def run_with_rows(ctx: HandlerContext, run_id: str) -> tuple[RunState, DatasetPage | None]:
    """Read the run and its dataset: all rows if they are few, else only their number.

    The page is None if the dataset cannot be read, for example because it was deleted.
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
    """Begin the definition of `get-actor-run`, which all modes share."""
    hints = reads("Get Actor run", open_world=True)
    builder = limited_tool("get-actor-run", Category.RUNS, hints, description, handler, RunArguments, RunReport)
    return builder.keep_output_schema()
