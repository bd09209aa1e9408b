"""The report of a run, which every tool about runs returns, and the shared part of `get-actor-run`."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel
from temporalio import workflow

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.contracts import DEFAULT_THRESHOLD_BYTES, StoredOutput
from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.workflows.contracts.tool_calls import UNTIL_META, Offers, offers_all
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, OutputFacts, output_facts
from outlast.workflows.tools.framework.executors import INLINE_ROWS
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments, Category, Handler, ToolAnnotations, ToolBuilder, tool

_FAILURES = {
    "FAILED": ErrorCategory.UNKNOWN,
    "TIMED-OUT": ErrorCategory.TIMEOUT,
    "ABORTED": ErrorCategory.CANCELLED,
}


class _Camel(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class DefaultDataset(_Camel):
    """The run's default dataset. `itemCount` and `fields` are known once rows were read."""

    id: str
    item_count: int | None = None
    fields: list[str] | None = None
    items_schema: dict[str, JsonValue] | None = Field(
        default=None, description="JSON Schema that the rows read fit; of a large one only the top."
    )


class DefaultKeyValueStore(_Camel):
    """The run's default key-value store."""

    id: str
    keys: list[str] | None = Field(default=None, description="Its first keys.")


class Datasets(_Camel):
    """Datasets of a run by name."""

    default: DefaultDataset


class KeyValueStores(_Camel):
    """Key-value stores of a run by name."""

    default: DefaultKeyValueStore


class Storages(_Camel):
    """Storages of the run."""

    datasets: Datasets
    key_value_stores: KeyValueStores


class RunReport(_Camel):
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
    stats: dict[str, JsonValue] = {}
    usage_total_usd: float | None = Field(default=None, description="US dollars; settles shortly after the run's end.")
    storages: Storages | None = None
    items: list[JsonValue] | None = Field(
        default=None, description="The rows of the dataset; with `locator` the first ones, long values cut."
    )
    compressed: bool | None = Field(default=None, description="True when the rows were stored instead of answered.")
    locator: str | None = Field(default=None, description="Names the stored rows.")
    output: OutputFacts | None = Field(default=None, description="What is stored under the locator.")
    summary: str
    next_step: str
    task_id: str | None = Field(default=None, description="The task that goes on, when the answer came before its end.")

    def structured(self) -> dict[str, JsonValue]:
        """The report as `ToolResult.structured`."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def build_run_report(
    run: RunState,
    *,
    summary: str,
    next_step: str,
    page: DatasetPage | None = None,
    actor_name: str | None = None,
    output: StoredOutput | None = None,
) -> RunReport:
    """Describe `run`, with the rows of `page` when some were read, and `output` when all were stored."""
    dataset = DefaultDataset(
        id=run.dataset_id,
        item_count=page.total if page else None,
        fields=list(page.fields) if page else None,
        items_schema=page.items_schema if page else None,
    )
    store = DefaultKeyValueStore(
        id=run.key_value_store_id, keys=list(page.keys) if page and page.keys is not None else None
    )
    return RunReport(
        run_id=run.run_id,
        actor_id=run.actor_id,
        actor_name=run.actor_name or actor_name or (page.actor_name if page else None),
        status=run.status,
        status_message=run.status_message,
        started_at=run.started_at,
        finished_at=run.finished_at,
        exit_code=run.exit_code,
        build_number=run.build_number,
        options=run.options or None,
        stats=run.stats,
        usage_total_usd=run.usage_total_usd,
        storages=Storages(
            datasets=Datasets(default=dataset),
            key_value_stores=KeyValueStores(default=store),
        ),
        items=list(page.items) if page and (page.items or page.total == 0) else None,
        compressed=True if output else None,
        locator=output.locator if output else None,
        output=output_facts(output) if output else None,
        summary=summary,
        next_step=next_step,
    )


def run_failure(run: RunState, *, tool: str, offers: Offers = offers_all) -> ErrorEnvelope | None:
    """The error for a run that failed; None for any other run, and for one that was stopped with enough."""
    category = _FAILURES.get(run.status) if run.until_met is None else None
    if category is None:
        return None
    reason = f": {run.status_message}" if run.status_message else ""
    return ErrorEnvelope.permanent(
        category, tool, f"Run {run.run_id} ended as {run.status}{reason}", hint=_failure_hint(run, offers)
    )


def until_meta(run: RunState) -> dict[str, JsonValue]:
    """The meta of an answer about a run that was stopped with enough; empty for any other."""
    return {UNTIL_META: run.until_met.model_dump(mode="json", exclude_none=True)} if run.until_met is not None else {}


def _failure_hint(run: RunState, offers: Offers) -> str:
    log = f"Read the end of its log with get-actor-log (runId {run.run_id}). " if offers("get-actor-log") else ""
    return f"{log}Rows so far are in dataset {run.dataset_id}."


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
