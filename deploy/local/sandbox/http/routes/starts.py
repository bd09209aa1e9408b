"""Starting a run: all checks first, then one transaction, then the process."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from outlast.deploy.local.sandbox.accounts.limits import checked_memory
from outlast.deploy.local.sandbox.accounts.users import User
from outlast.deploy.local.sandbox.actors.actor_folder import Actor
from outlast.deploy.local.sandbox.actors.input_schema import prepared_input
from outlast.deploy.local.sandbox.http.errors import ApiError, invalid_parameter
from outlast.deploy.local.sandbox.http.query import integer_or_none, number_or_none
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.runs.run_table import Run
from outlast.deploy.local.sandbox.runs.webhooks import parse_webhooks
from outlast.deploy.local.sandbox.storages.storage_table import Kind
from outlast.deploy.local.sandbox.times_and_ids import new_id, now


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of a start. None means the Actor's default."""

    build: str | None
    memory_mbytes: int | None
    timeout_seconds: int | None
    max_items: int | None
    max_total_charge_usd: float | None
    webhooks: list[JsonObject]

    @staticmethod
    def of(request: Request) -> StartOptions:
        """The options in the query."""
        return StartOptions(
            build=request.query_params.get("build"),
            memory_mbytes=integer_or_none(request, "memory"),
            timeout_seconds=integer_or_none(request, "timeout"),
            max_items=integer_or_none(request, "maxItems"),
            max_total_charge_usd=number_or_none(request, "maxTotalChargeUsd"),
            webhooks=parse_webhooks(request.query_params.get("webhooks")),
        )

    @staticmethod
    def saved(options: JsonObject) -> StartOptions:
        """The options that a task or a schedule has saved."""
        return StartOptions(None, None, None, None, None, []).over(options)

    def over(self, saved: JsonObject) -> StartOptions:
        """These options, and for those that are None the ones that a task has saved."""
        return StartOptions(
            build=self.build or saved.get("build"),
            memory_mbytes=self.memory_mbytes or saved.get("memoryMbytes"),
            timeout_seconds=saved.get("timeoutSecs") if self.timeout_seconds is None else self.timeout_seconds,
            max_items=self.max_items or saved.get("maxItems"),
            max_total_charge_usd=self.max_total_charge_usd or saved.get("maxTotalChargeUsd"),
            webhooks=self.webhooks,
        )


_ALIASED: dict[str, Kind] = {"datasets": "dataset", "keyValueStores": "key-value-store"}


@dataclass(frozen=True, slots=True)
class Start:
    """One accepted request to start an Actor, or a saved task of it."""

    actor: Actor
    user: User
    options: StartOptions
    body: bytes
    content_type: str
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class StartedBy:
    """Where a start comes from."""

    method: str
    path: str
    user_agent: str
    client_ip: str | None
    origin: str
    schedule_id: str | None = None
    scheduled_at: float | None = None

    @staticmethod
    def of(request: Request, user: User) -> StartedBy:
        """A request of a program, or of a run that starts another."""
        client = request.client.host if request.client else None
        origin = "ACTOR" if user.run_id else "API"
        return StartedBy(request.method, request.url.path, request.headers.get("user-agent", ""), client, origin)


def start_run(platform: Platform, by: StartedBy, start: Start) -> Run:
    """Checks the request, saves the run as READY and starts it. Raises `ApiError` 400 or 402.

    A payment that came with the request is taken in the same transaction, so that it is taken for this run or not at
    all.
    """
    actor, options = start.actor, start.options
    _check_build(actor, options.build)
    memory_mbytes = checked_memory(options.memory_mbytes or actor.default_memory_mbytes)
    _check_actor_memory(actor, memory_mbytes)
    value, content_type = prepared_input(actor.input_schema, start.body, start.content_type)
    platform.limits.check(platform.runs.open, start.user.id, memory_mbytes)
    with platform.database.transaction():
        run = _new_run(platform, by, start, memory_mbytes)
        run.input_bytes = len(value)
        if value:
            platform.stores.put(run.store_id, "INPUT", content_type, value)
        platform.runs.save(run)
        if start.user.payment is not None:
            platform.settlements.settle(start.user.payment, run.id)
        platform.webhooks.add(run, options.webhooks)
    platform.supervisor.start(run)
    return run


def check_resurrection(platform: Platform, run: Run, options: StartOptions) -> int:
    """The memory with which an ended run starts again, in MB. Raises `ApiError` 400 for options that it cannot have.

    A limit on what the run may cost can only be raised.
    """
    actor = platform.catalogue.by_id(run.actor_id)
    memory_mbytes = checked_memory(options.memory_mbytes or run.memory_mbytes)
    if actor is not None:
        _check_build(actor, options.build)
        _check_actor_memory(actor, memory_mbytes)
    limits = (
        ("maxItems", options.max_items, run.max_items),
        ("maxTotalChargeUsd", options.max_total_charge_usd, run.max_total_charge_usd),
    )
    for name, wanted, before in limits:
        if wanted is not None and before is not None and wanted < before:
            raise invalid_parameter(f"{name} of a resurrected run can only be increased: it was {before}")
    return memory_mbytes


def _new_run(platform: Platform, by: StartedBy, start: Start, memory_mbytes: int) -> Run:
    actor, options, user = start.actor, start.options, start.user
    run_id = new_id()
    listed_at, shown_at = platform.faults.shown_from(by.method, by.path, by.user_agent)
    create = platform.storages.create
    timeout_seconds = options.timeout_seconds
    return Run(
        id=run_id,
        user_id=user.id,
        actor_id=actor.id,
        actor_name=actor.full_name,
        build_id=actor.build_id,
        build_number=actor.build_number,
        build_tag=options.build or actor.build_tag,
        memory_mbytes=memory_mbytes,
        timeout_seconds=actor.default_timeout_seconds if timeout_seconds is None else timeout_seconds,
        dataset_id=create("dataset", user.id, actor_id=actor.id, run_id=run_id, max_items=options.max_items),
        store_id=create("key-value-store", user.id, actor_id=actor.id, run_id=run_id),
        queue_id=create("request-queue", user.id, actor_id=actor.id, run_id=run_id),
        started_at=now(),
        origin=by.origin,
        max_items=options.max_items,
        max_total_charge_usd=options.max_total_charge_usd,
        user_agent=by.user_agent or None,
        client_ip=by.client_ip,
        task_id=start.task_id,
        schedule_id=by.schedule_id,
        scheduled_at=by.scheduled_at,
        listed_at=listed_at,
        shown_at=shown_at,
        prices=actor.price_per_event,
        aliased={
            kind: {alias: create(stored, user.id, actor_id=actor.id, run_id=run_id) for alias in actor.aliases(kind)}
            for kind, stored in _ALIASED.items()
        },
    )


def _check_build(actor: Actor, build: str | None) -> None:
    if build not in {None, "", actor.build_tag, "latest", actor.build_number, actor.version}:
        raise ApiError(400, "unknown-build-tag", f"Actor {actor.full_name} has no build '{build}'")


def _check_actor_memory(actor: Actor, memory_mbytes: int) -> None:
    minimum = actor.definition.get("minMemoryMbytes")
    maximum = actor.definition.get("maxMemoryMbytes")
    if minimum is not None and memory_mbytes < minimum:
        raise invalid_parameter(f"Memory must be at least {minimum} MB for this Actor, not {memory_mbytes}")
    if maximum is not None and memory_mbytes > maximum:
        raise invalid_parameter(f"Memory must be at most {maximum} MB for this Actor, not {memory_mbytes}")
