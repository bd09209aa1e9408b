"""The one run response: the state of a run, what its storages hold, and what to call next. It never holds rows."""

from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES
from outlast.workflows.contracts.tool_calls import Offers, ToolResult
from outlast.workflows.tools.apify.answers.blocks import with_sentences
from outlast.workflows.tools.apify.schemas.runs import WAIT_DEFAULT_SECONDS

USAGE_META = "com.apify/ActorRun"
DEFAULT = "default"
_STATS = ("runTimeSecs", "computeUnits", "memMaxBytes")
_INPUT_KEY = "INPUT"
_PAGE_OF_ITEMS = 20
_NAMED_FIELDS = 50
"""Fields of items that a sentence names; `fields` has all of them that fit."""


@dataclass(frozen=True)
class RunStorages:
    """What is known of a run's storages, by alias; `default` is always there."""

    datasets: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    stores: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])

    @classmethod
    def named_in(cls, run: JsonObject) -> "RunStorages":
        """Their ids alone."""
        return cls(
            {alias: {"id": storage} for alias, storage in storage_ids(run, "datasets", "defaultDatasetId").items()},
            {
                alias: {"id": storage}
                for alias, storage in storage_ids(run, "keyValueStores", "defaultKeyValueStoreId").items()
            },
        )

    def of_default_alone(self) -> "RunStorages":
        """The default ones."""
        return RunStorages(
            {alias: each for alias, each in self.datasets.items() if alias == DEFAULT},
            {alias: each for alias, each in self.stores.items() if alias == DEFAULT},
        )


def storage_ids(run: JsonObject, kind: str, default: str) -> dict[str, str]:
    """The ids of a run's storages of one kind, the default one first (Apify API v2, run object, `storageIds`)."""
    aliased = run.get("storageIds")
    ids = aliased.get(kind) if isinstance(aliased, dict) else None
    found = {alias: each for alias, each in ids.items() if isinstance(each, str)} if isinstance(ids, dict) else {}
    return {DEFAULT: str(run.get(default) or ""), **{alias: each for alias, each in found.items() if alias != DEFAULT}}


def is_final(run: JsonObject) -> bool:
    """Whether the run has ended."""
    return run.get("status") in FINAL_RUN_STATUSES


def run_answer(
    run: JsonObject,
    storages: RunStorages,
    *,
    actor_name: str | None,
    summary: str,
    next_step: str,
) -> ToolResult:
    """The answer about `run`, the platform's own object."""
    stats = run.get("stats")
    report: JsonObject = {
        "runId": run.get("id"),
        "actorId": run.get("actId"),
        "actorName": actor_name,
        "status": run.get("status"),
        "statusMessage": run.get("statusMessage"),
        "exitCode": run.get("exitCode"),
        "startedAt": run.get("startedAt"),
        "finishedAt": run.get("finishedAt"),
        "stats": {name: stats[name] for name in _STATS if stats.get(name) is not None}
        if isinstance(stats, dict)
        else None,
        "storages": {
            "datasets": cast(JsonValue, storages.datasets),
            "keyValueStores": cast(JsonValue, storages.stores),
        },
        "summary": summary,
        "nextStep": next_step,
    }
    return with_sentences({name: value for name, value in report.items() if value is not None}, whole_text=True)


def with_usage(answer: ToolResult, run: JsonObject) -> ToolResult:
    """The answer with what the run has cost, for programs."""
    usage = {name: run[name] for name in ("usageTotalUsd", "usageUsd") if run.get(name) is not None}
    return answer.model_copy(update={"meta": {**answer.meta, USAGE_META: usage}}) if usage else answer


def summary_of(run: JsonObject, storages: RunStorages) -> str:
    """How the run stands, and what there is of it. Begins as clients expect it."""
    status = str(run.get("status"))
    if status == "READY":
        return f"READY. Run {run.get('id')} waits for its start."
    seconds = _seconds(run)
    head = {"RUNNING": f"RUNNING for {seconds}.", "SUCCEEDED": f"SUCCEEDED in {seconds}."}
    parts = [head.get(status, f"{status} after {seconds}.")]
    if run.get("statusMessage") and status != "SUCCEEDED":
        parts.append(f'It says: "{run["statusMessage"]}".')
    dataset = storages.datasets.get(DEFAULT, {})
    if is_final(run) and isinstance(count := dataset.get("itemCount"), int):
        parts.append(f"Items: {count}.")
        keys = storages.stores.get(DEFAULT, {}).get("keys")
        records = [key for key in keys if key != _INPUT_KEY] if isinstance(keys, list) else []
        if records:
            parts.append(f"Records beside the input: {len(records)}.")
    return " ".join(parts)


def next_step_of(run: JsonObject, storages: RunStorages, offers: Offers) -> str:
    """What to call next: wait for a run that goes on, read what an ended one wrote, else its log if it is offered."""
    run_id = run.get("id")
    if not is_final(run):
        return f"Follow it with get-actor-run, runId={run_id} and waitSecs={WAIT_DEFAULT_SECONDS}."
    dataset = storages.datasets.get(DEFAULT, {})
    count = dataset.get("itemCount")
    if not isinstance(count, int):
        return f"Read what it has written, if anything, with get-dataset-items, datasetId={dataset.get('id')}."
    if count > 0:
        return _reading_of(dataset, count)
    store = storages.stores.get(DEFAULT, {})
    keys = store.get("keys")
    records = [str(key) for key in keys if key != _INPUT_KEY] if isinstance(keys, list) else []
    if records:
        return (
            f"Read a record with get-key-value-store-record, keyValueStoreId={store['id']}, recordKey={records[0]}. "
            f"The dataset is empty: datasetId={dataset.get('id')}."
        )
    if run.get("status") == "SUCCEEDED":
        return f"It wrote nothing: datasetId={dataset.get('id')} is empty. Its log may say why."
    log = f"Its log says why: get-actor-run-log, runId={run_id}. " if offers("get-actor-run-log") else ""
    return f"{log}It has written no items: datasetId={dataset.get('id')} is empty."


def _reading_of(dataset: JsonObject, count: int) -> str:
    """How to read a dataset that has items."""
    size, fields = dataset.get("inflatedBytes"), dataset.get("fields")
    about = f", about {size} bytes" if isinstance(size, int) else ""
    names = [str(name) for name in fields] if isinstance(fields, list) else []
    more = f" and {len(names) - _NAMED_FIELDS} more" if len(names) > _NAMED_FIELDS else ""
    chosen = f' Choose among the fields with fields="...": {", ".join(names[:_NAMED_FIELDS])}{more}.' if names else ""
    page = f"limit={min(count, _PAGE_OF_ITEMS)}"
    return f"Read the items ({count} in all{about}) with get-dataset-items, datasetId={dataset['id']}, {page}.{chosen}"


def _seconds(run: JsonObject) -> str:
    stats = run.get("stats")
    seconds: Any = stats.get("runTimeSecs") if isinstance(stats, dict) else None
    return f"{seconds:g}s" if isinstance(seconds, int | float) else "0s"
