"""Runs, their logs and saved tasks, as the platform has them."""

import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal

from temporalio import activity

from outlast.activities import apify
from outlast.activities.failures.classify import explain_not_found, redact
from outlast.activities.heartbeat import activity_scope
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import Budget, EndedRun, RunLog, RunLogInput, RunSpec, RunState, WaitRunInput
from outlast.activities.storages.contracts import DatasetItemsInput
from outlast.activities.storages.datasets import fetch_described_page, lines_of
from outlast.activities.unicode_text import valid_text


class RunReads:
    """Reads single runs. Raises what apify-client raises."""

    def __init__(self, platform: ApifyPlatform, *, console_url: str | None, request_timeout: timedelta) -> None:
        """`console_url` is the root of the web console that shows runs, if any."""
        self._platform = platform
        self._console_url = console_url
        self._request_timeout = request_timeout

    async def run(
        self, client: "apify.ApifyClientAsync", run_id: str, *, wait: timedelta = timedelta(0)
    ) -> "apify.Run":
        """Return the run, when it has ended or after `wait` (Apify API v2, `waitForFinish`, whole seconds)."""
        seconds = round(wait.total_seconds())
        response = await client.http_client.call(
            method="GET",
            url=self._platform.url_of("actor-runs", run_id),
            params={"waitForFinish": seconds} if seconds else None,
            timeout=timedelta(seconds=seconds) + self._request_timeout / 2,
        )
        return apify.Run.model_validate(response.json()["data"])

    def state(self, run: "apify.Run", *, adopted: bool = False) -> RunState:
        """Return the run in our form."""
        return run_state(run, console_url=self._console_url, adopted=adopted)


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
    """Return the limit of `budget` that a running run has exceeded. The platform enforces limits on items and time."""
    limit = budget.max_total_charge_usd
    if limit is not None and state.usage_total_usd is not None and state.usage_total_usd > float(limit):
        return "money"
    return None


def _stats(run: "apify.Run") -> dict[str, Any]:
    """Return the platform's statistics of the run under its own names (Apify API v2, run object, `stats`)."""
    wanted = ("durationMillis", "runTimeSecs", "computeUnits", "memMaxBytes", "restartCount")
    stats = run.stats.model_dump(mode="json", by_alias=True)
    found = {name: stats[name] for name in wanted if stats.get(name) is not None}
    return {**found, "resurrectCount": stats["resurrectCount"]} if stats.get("resurrectCount") else found


def _options(run: "apify.Run") -> dict[str, Any]:
    """Return the options of the run's start, under the platform's own names (Apify API v2, run object, `options`)."""
    wanted = ("build", "timeoutSecs", "memoryMbytes", "maxItems", "maxTotalChargeUsd")
    options = run.options.model_dump(mode="json", by_alias=True)
    return {name: options[name] for name in wanted if options.get(name) is not None}


_MOST_ROWS = 1_000


async def with_few_rows(client: "apify.ApifyClientAsync", request: WaitRunInput, ended: EndedRun) -> EndedRun:
    """`ended` with all its rows, when `request` asks for them and they fit. Rows that cannot be read are left out: the
    end of the run must not be lost with them, and a tool that needs the rows reads them again.
    """
    if request.rows_within_bytes is None or not ended.is_final:
        return ended
    wanted = DatasetItemsInput(
        caller=request.caller,
        dataset_id=ended.dataset_id,
        limit=_MOST_ROWS,
        max_bytes=request.rows_within_bytes,
        whole=True,
        expect_items=ended.status == "SUCCEEDED" or ended.until_met is not None,
        describe_run_store=ended.key_value_store_id,
    )
    began = time.monotonic()
    try:
        rows = await fetch_described_page(client, wanted)
        return ended.model_copy(update={"rows": rows, "read_seconds": round(time.monotonic() - began, 3)})
    except Exception as error:  # noqa: BLE001 (reading the rows again fails with the same error, which is then reported)
        activity.logger.warning("Cannot read the rows of the ended run %s: %s", ended.run_id, redact(repr(error)))
        return ended


_PARAMETERS = {
    "build": "build",
    "memory_mbytes": "memory",
    "max_items": "maxItems",
    "max_total_charge_usd": "maxTotalChargeUsd",
}
"""Options of a start, and parameters of the request (Apify API v2, `POST /v2/actor-tasks/:actorTaskId/runs`)."""


async def start_saved_task(
    client: "apify.ApifyClientAsync", url: str, options: dict[str, Any], *, timeout: timedelta
) -> "apify.Run":
    """Return the run; options that are None are as they were saved. Raises what apify-client raises."""
    seconds = options["run_timeout"]
    given = {name: options[option] for option, name in _PARAMETERS.items()}
    given["timeout"] = round(seconds.total_seconds()) if seconds is not None else None
    response = await client.http_client.call(
        method="POST",
        url=url,
        headers={"Content-Type": options["content_type"]},
        params={name: value for name, value in given.items() if value is not None} or None,
        data=options["run_input"],
        timeout=timeout,
    )
    return apify.Run.model_validate(response.json()["data"])


_LOG_TIMEOUT = timedelta(seconds=50)


class RunLogActivities:
    """Reads the logs of a caller's runs."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def fetch_run_log(self, request: RunLogInput) -> RunLog:
        """Return the last lines of a run's log, at most `max_bytes`. Fails with `not_found` for an unknown run."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            try:
                async with self._log_so_far(client, request.run_id) as response:
                    tail, total = await _tail(response, request.lines)
            except apify.NotFoundError:
                raise await explain_not_found(client, "run", request.run_id) from None
            text = valid_text(b"\n".join(tail)[-request.max_bytes :].decode(errors="replace"))
            return RunLog(run_id=request.run_id, text=text, lines=text.count("\n") + bool(text), total_lines=total)

    @asynccontextmanager
    async def _log_so_far(self, client: "apify.ApifyClientAsync", run_id: str) -> AsyncGenerator["apify.HttpResponse"]:
        """Provide the log as a stream. apify-client's own `stream` makes the platform send until the run has ended."""
        url = self._platform.url_of("logs", run_id)
        response = await client.http_client.call(method="GET", url=url, stream=True, timeout=_LOG_TIMEOUT)
        try:
            yield response
        finally:
            await response.aclose()


async def _tail(response: "apify.HttpResponse", lines: int) -> tuple[deque[bytes], int]:
    tail: deque[bytes] = deque(maxlen=lines)
    total = 0
    async for line in lines_of(response):
        tail.append(line)
        total += 1
    return tail, total
