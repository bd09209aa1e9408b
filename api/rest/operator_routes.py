"""Routes for operators and probes: health, metrics, `/v1/operations`, `/v1/usage` (costs of a caller), and `/codec`.

`/codec` is the codec protocol of Temporal, with which its UI and CLI show encrypted payloads.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from temporalio.api.common.v1 import Payloads

from outlast.activities.contracts import Caller
from outlast.api.access.limits.caller_limits import caller_label, show_use
from outlast.api.access.limits.rate_limits import Clock, TokenBucket
from outlast.api.access.permissions import explained
from outlast.api.access.policy.contracts import CallerId
from outlast.api.errors import BadRequest
from outlast.api.health import checks_of_the_api
from outlast.api.http.dependencies import KnownParametersRoute, OperatorDep, PrincipalDep, ReaderDep, ServicesDep
from outlast.api.http.problems import documented_problems
from outlast.api.metrics import (
    DISK_FREE,
    EXPIRY,
    HANDOFFS_NEAR_DEADLINE,
    OPEN_TASKS,
    QUEUED_TASKS,
    REGISTRY,
    SERVER_UP,
)
from outlast.api.services import Services, whoami
from outlast.api.usage import as_csv
from outlast.contracts.operations import (
    CallerHoldings,
    HealthCheck,
    HealthReport,
    Me,
    Operations,
    PolicyExplanation,
    Readiness,
    UsageQuery,
    UsageReport,
)
from outlast.worker.otlp.metrics import series_at

_Answer = TypeVar("_Answer")
_PER_SECOND = 2
_BURST = 20
"""Whoever asks seldom, as probes and Prometheus do, gets an answer that was made for it."""


class KeptAnswer(Generic[_Answer]):
    """One answer. It is made again at most twice a second over longer times; in between the last one counts."""

    def __init__(self, make: Callable[[], Awaitable[_Answer]], clock: Clock = time.monotonic) -> None:
        """Make it with `make`."""
        self._make = make
        self._bucket = TokenBucket(clock)
        self._making: asyncio.Task[_Answer] | None = None
        self._last: asyncio.Task[_Answer] | None = None

    async def get(self) -> _Answer:
        """The answer. Raises what `make` raises."""
        answer = self._making
        if answer is None:
            answer = self._last
            if self._bucket.take(_PER_SECOND, _BURST) == 0 or answer is None:
                answer = self._making = asyncio.create_task(self._made())
                answer.add_done_callback(self._keep)
        # Those who come while it is made share it; it does not end when one of them leaves.
        return await asyncio.shield(answer)

    async def _made(self) -> _Answer:
        return await self._make()

    def _keep(self, made: asyncio.Task[_Answer]) -> None:
        self._making, self._last = None, made
        if not made.cancelled():
            made.exception()


codec_router = APIRouter(prefix="/codec", tags=["operators"], include_in_schema=False, route_class=KnownParametersRoute)
router = APIRouter(tags=["operators"], route_class=KnownParametersRoute)
_CHECK_SECONDS = 3
_INSTANCE_HEADER = "Outlast-Instance"


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz(services: ServicesDep) -> PlainTextResponse:
    """Answer while the process is alive. `Outlast-Instance` is the stack that it belongs to, if any."""
    return PlainTextResponse("ok", headers=_instance_header(services))


@router.get("/readyz", responses={503: {"model": Readiness}})
async def readyz(request: Request, services: ServicesDep) -> JSONResponse:
    """Check that the task store and a worker can be reached, and that the disks of this machine have room."""
    checks = await kept_answers(request).readiness.get()
    status_code = 200 if checks.ready else 503
    return JSONResponse(checks.model_dump(), status_code=status_code, headers=_instance_header(services))


@router.get("/v1/me", responses=documented_problems(401, 403))
async def me(services: ServicesDep, principal: PrincipalDep) -> Me:
    """Who you are to this server: your caller id, scopes, roles and limits. Any credential may read it."""
    return whoami(services, principal)


@router.get("/v1/operations", responses=documented_problems(401, 403, 503))
async def operations(services: ServicesDep, principal: ReaderDep) -> Operations:
    """The numbers of your open tasks by state, and the latest tasks. Works even if no worker is running.

    With the scope `admin`, the tasks of all callers, the task queues and the workers.
    """
    return await services.operations.read(principal)


@router.get("/v1/health", responses=documented_problems(401, 403, 503))
async def health(services: ServicesDep, _operator: OperatorDep) -> HealthReport:
    """The checks of `outlast doctor` that the API can make, for keys with the scope `admin`."""
    checks = tuple(HealthCheck.model_validate(asdict(check)) for check in await checks_of_the_api(services))
    return HealthReport(ok=all(check.health != "fail" for check in checks), checks=checks)


@router.get("/v1/policy/explain", responses=documented_problems(400, 401, 403, 404, 422, 503))
async def explain_policy(
    services: ServicesDep,
    _operator: OperatorDep,
    caller: Annotated[CallerId, Query(description="Id of the caller of the call: `key:NAME`.")],
    tool: Annotated[str, Query(min_length=1, max_length=200, description="The tool, or the Actor `user/name`.")],
    actor: Annotated[
        str | None, Query(min_length=1, max_length=200, description="The Actor that the call runs, as `user/name`.")
    ] = None,
) -> PolicyExplanation:
    """What the policy decides about a call, and the rule behind it. Needs the scope `admin`; calls nothing."""
    return explained(services.policy.current, caller, tool, actor)


@router.get("/v1/operations/holdings", responses=documented_problems(401, 403, 422, 503))
async def holdings(
    services: ServicesDep,
    principal: ReaderDep,
    caller: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Id of the caller; another caller needs `admin`.")
    ] = None,
) -> CallerHoldings:
    """The resources of a caller that remain when its keys are revoked. Those of another caller need `admin`."""
    if caller is not None and caller != principal.caller.id:
        principal.require("admin")
    whose = Caller(id=caller or principal.caller.id)
    webhooks, schedules, saved_calls, open_tasks = await asyncio.gather(
        services.webhooks.list(whose),
        services.schedules.list(whose),
        services.saved_calls.list(whose),
        services.operations.count_open(whose.id),
    )
    return CallerHoldings(
        caller=whose.id,
        webhooks=tuple(one.id for one in webhooks.webhooks),
        schedules=tuple(one.id for one in schedules.schedules),
        saved_calls=tuple(one.name for one in saved_calls.saved_calls),
        open_tasks=open_tasks,
        open_streams=services.limits.held(whose.id, "open_streams"),
    )


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this process, and open and queued tasks, counted at most every five seconds."""
    return Response(await kept_answers(request).metrics.get(), media_type=CONTENT_TYPE_LATEST)


class KeptAnswers:
    """Cached answers to requests without credentials, however often they come."""

    def __init__(self, services: Services) -> None:
        self.readiness = KeptAnswer(lambda: _readiness(services))
        self.metrics = KeptAnswer(lambda: _series_text(services))


def kept_answers(request: Request) -> KeptAnswers:
    """The cached answers of the app that serves `request`."""
    return request.app.state.kept_answers


async def _readiness(services: Services) -> Readiness:
    temporal, worker = await services.tasks.readiness(timeout_seconds=_CHECK_SECONDS)
    disk = await services.disks.have_room(timeout_seconds=_CHECK_SECONDS)
    found = {"temporal": temporal, "worker": worker, "disk": disk}
    return Readiness(ready=temporal and disk, checks={name: _word(good) for name, good in found.items()})


async def _series_text(services: Services) -> bytes:
    await _count(services)
    return generate_latest(REGISTRY) + await services.quick_calls.metrics()


async def current_series(services: Services) -> Iterable[Metric]:
    """The same series, for export without a scrape."""
    await _count(services)
    return (*REGISTRY.collect(), *await series_at(services.quick_calls.metrics_url))


async def _count(services: Services) -> None:
    """Update the metrics that are not counted as events happen."""
    OPEN_TASKS.set(await services.open_tasks.count())
    HANDOFFS_NEAR_DEADLINE.set(await services.near_deadline.count())
    await services.shares.count_queues()
    show_use(*services.limits_used)
    _show_queues(services)
    _show_expiry(services)
    _show_servers(services)
    for place, size in services.disks.free().items():
        DISK_FREE.labels(place).set(size)


def _show_expiry(services: Services) -> None:
    ends = {"api_key": services.policy.current.next_key_end(), "temporal_certificate": services.certificate_end}
    EXPIRY.clear()
    for kind, end in ends.items():
        if end is not None:
            EXPIRY.labels(kind).set(end.timestamp())


def _show_servers(services: Services) -> None:
    SERVER_UP.clear()
    for server, is_up in (services.server_tools.states() if services.server_tools is not None else {}).items():
        SERVER_UP.labels(server).set(is_up)


def _show_queues(services: Services) -> None:
    queued = Counter[str]()
    for caller_id, tasks in services.shares.queued().items():
        queued[caller_label(caller_id)] += tasks
    QUEUED_TASKS.clear()
    for label, tasks in queued.items():
        QUEUED_TASKS.labels(label).set(tasks)


def _instance_header(services: Services) -> dict[str, str]:
    instance_id = services.settings.instance_id
    return {_INSTANCE_HEADER: instance_id} if instance_id else {}


def _word(good: bool) -> Literal["ok", "failing"]:
    return "ok" if good else "failing"


@codec_router.post("/decode")
async def decode(request: Request, services: ServicesDep, _operator: OperatorDep) -> Response:
    """The payloads, decrypted. References to the store stay: the UI offers them for download."""
    return await _answer(request, services, fetch=False)


@codec_router.post("/download")
async def download(request: Request, services: ServicesDep, _operator: OperatorDep) -> Response:
    """The payloads of references, decrypted."""
    return await _answer(request, services, fetch=True)


async def _answer(request: Request, services: Services, *, fetch: bool) -> Response:
    namespace = request.headers.get("X-Namespace")
    if namespace not in (None, "", services.raw_payloads.namespace):
        raise BadRequest(f"This server only has the payloads of the namespace {services.raw_payloads.namespace!r}.")
    body = await request.body()
    try:
        asked = await asyncio.to_thread(Parse, body, Payloads(), ignore_unknown_fields=True)
    except (ParseError, UnicodeDecodeError) as error:
        raise BadRequest('The body has to be `{"payloads": [...]}`, as Temporal\'s codec protocol has it.') from error
    opened = Payloads(payloads=await services.raw_payloads.opened(asked.payloads, fetch=fetch))
    return Response(await asyncio.to_thread(MessageToJson, opened, indent=None), media_type="application/json")


usage_router = APIRouter(prefix="/v1/usage", tags=["usage"], route_class=KnownParametersRoute)

CSV_MEDIA_TYPE = "text/csv"


@usage_router.get(
    "",
    response_model=UsageReport,
    responses={
        200: {"content": {CSV_MEDIA_TYPE: {}}, "description": "The report; with `format=csv` its rows as CSV."},
        **documented_problems(400, 401, 403, 422, 503),
    },
)
async def get_usage(
    request: Request, services: ServicesDep, principal: ReaderDep, query: Annotated[UsageQuery, Query()]
) -> UsageReport | Response:
    """Your costs of runs and models, by day or another grouping, and what your spending limits leave.

    An entry counts for the day (UTC) on which its run ended. Running runs may cost `reserved_usd`.
    """
    report = await services.usage.report(principal, query)
    if query.format == "csv" or (query.format is None and _prefers_csv(request)):
        return Response(as_csv(report, query.by, safe=query.csv_safe), media_type=f"{CSV_MEDIA_TYPE}; charset=utf-8")
    return report


def _prefers_csv(request: Request) -> bool:
    accepted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    return CSV_MEDIA_TYPE in accepted and "application/json" not in accepted
