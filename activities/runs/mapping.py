"""Maps the platform's run object to a `RunState`, and a `RunSpec` to the options of a start call."""

from datetime import timedelta
from typing import Any, Literal

from outlast.activities.platform import apify
from outlast.activities.runs.contracts import Budget, RunSpec, RunState


def run_state(
    run: "apify.Run", *, console_url: str | None, adopted: bool = False, actor_name: str | None = None
) -> RunState:
    """The state of `run`. `console_url` is the root of the web console that shows runs, None when there is none."""
    return RunState(
        run_id=run.id,
        actor_id=run.act_id,
        actor_name=actor_name,
        status=str(run.status),
        status_message=run.status_message,
        started_at=run.started_at,
        finished_at=run.finished_at,
        dataset_id=run.default_dataset_id,
        key_value_store_id=run.default_key_value_store_id,
        build_number=run.build_number,
        exit_code=run.exit_code,
        usage_total_usd=run.usage_total_usd,
        stats=_stats(run),
        options=_options(run),
        console_url=f"{console_url.rstrip('/')}/actors/runs/{run.id}" if console_url else None,
        adopted=adopted,
    )


def start_options(spec: RunSpec, run_input: bytes) -> dict[str, Any]:
    """The keyword arguments of apify-client's `start` for `spec`; `run_input` is its input as JSON, in the clear."""
    budget = spec.budget
    seconds = budget.max_run_seconds
    return {
        "run_input": run_input,
        "content_type": "application/json; charset=utf-8",
        "build": spec.build,
        "memory_mbytes": spec.memory_mbytes,
        "max_items": budget.max_items,
        "max_total_charge_usd": budget.max_total_charge_usd,
        "run_timeout": timedelta(seconds=seconds) if seconds else None,
    }


def exceeded_limit(state: RunState, budget: Budget) -> Literal["money"] | None:
    """Which limit of `budget` a running run has exceeded. The platform itself enforces the limits on items and time."""
    limit = budget.max_total_charge_usd
    if limit is not None and state.usage_total_usd is not None and state.usage_total_usd > float(limit):
        return "money"
    return None


def _stats(run: "apify.Run") -> dict[str, Any]:
    """The platform's statistics of the run under its own names (Apify API v2, run object, `stats`)."""
    wanted = ("durationMillis", "runTimeSecs", "computeUnits", "memMaxBytes", "restartCount")
    stats = run.stats.model_dump(mode="json", by_alias=True)
    found = {name: stats[name] for name in wanted if stats.get(name) is not None}
    return {**found, "resurrectCount": stats["resurrectCount"]} if stats.get("resurrectCount") else found


def _options(run: "apify.Run") -> dict[str, Any]:
    """How the run was started, under the platform's own names (Apify API v2, run object, `options`)."""
    wanted = ("build", "timeoutSecs", "memoryMbytes", "maxItems", "maxTotalChargeUsd")
    options = run.options.model_dump(mode="json", by_alias=True)
    return {name: options[name] for name in wanted if options.get(name) is not None}
