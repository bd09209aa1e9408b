"""Actors: activities that search Apify Store and describe Actors, and Actors as cards and definitions.

Actors as cards and definitions, read from the platform's objects. Publishers write many of the fields, so missing
and malformed ones are tolerated.
"""

from datetime import datetime
from typing import cast

from pydantic import Field, JsonValue, TypeAdapter, field_validator
from temporalio import activity

from outlast.activities import apify
from outlast.activities.actors import contracts as actors
from outlast.activities.actors import contracts as contract
from outlast.activities.contracts import Contract, ErrorCategory, JsonObject
from outlast.activities.failures.classify import ToolFailure, as_activity_failure, classify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.storages.datasets import schema_of_items

_STORE_PAGE = "https://apify.com"
_MAX_EVENTS = 20
_PER_MONTH = "FLAT_PRICE_PER_MONTH"
_PER_RESULT = "PRICE_PER_DATASET_ITEM"
_PER_EVENT = "PAY_PER_EVENT"


def card_of_store_item(item: "apify.StoreActor") -> contract.ActorCard:
    """Return the card of an Actor found in the Store."""
    pricing = item.current_pricing_info
    return contract.ActorCard(
        actor_id=item.id,
        full_name=f"{item.username}/{item.name}",
        title=item.title or item.name,
        description=item.description or "",
        developer=item.user_full_name or item.username,
        url=str(item.url) if item.url else f"{_STORE_PAGE}/{item.username}/{item.name}",
        categories=tuple(item.categories or ()),
        pricing=pricing_of(pricing.model_dump(by_alias=True, mode="json")) if pricing else None,
        stats=_stats(item.stats, item.actor_review_rating, item.actor_review_count, item.bookmark_count),
        notice=item.notice.value if item.notice not in (None, apify.ActorNotice.NONE) else None,
    )


def card_of_actor(actor: "apify.ActorResource") -> contract.ActorCard:
    """Return the card of an Actor object."""
    document = cast(JsonObject, actor.model_dump(by_alias=True, mode="json"))
    infos = document.get("pricingInfos")
    current = infos[-1] if isinstance(infos, list) and infos else None
    categories = document.get("categories")
    return contract.ActorCard(
        actor_id=actor.id,
        full_name=f"{actor.username}/{actor.name}",
        title=actor.title or actor.name,
        description=actor.description or "",
        developer=actor.username,
        url=f"{_STORE_PAGE}/{actor.username}/{actor.name}" if document.get("isPublic") is True else None,
        categories=tuple(str(name) for name in categories) if isinstance(categories, list) else (),
        pricing=pricing_of(current) if isinstance(current, dict) else pricing_of({}),
        stats=_stats(actor.stats),
        is_deprecated=document.get("isDeprecated") is True,
    )


def pricing_of(info: JsonObject) -> contract.ActorPricing:
    """Return the price of an Actor (Apify API v2, `currentPricingInfo`). The summary names unknown pricing models."""
    model = str(info.get("pricingModel") or "FREE")
    price = _number(info.get("pricePerUnitUsd")) or _first_tier(info.get("tieredPricing"), "tieredPricePerUnitUsd")
    events = _events(info) if model == _PER_EVENT else ()
    return contract.ActorPricing(
        model=model,
        summary=_summary(model, price, events, info),
        price_per_1000_results_usd=round(price * 1_000, 6) if model == _PER_RESULT and price is not None else None,
        price_per_month_usd=price if model == _PER_MONTH else None,
        trial_minutes=int(_number(info.get("trialMinutes")) or 0) or None,
        events=events,
    )


def _summary(model: str, price: float | None, events: tuple[contract.PricedEvent, ...], info: JsonObject) -> str:
    match model:
        case "FREE":
            return "Free; you pay for platform usage only."
        case "PRICE_PER_DATASET_ITEM" if price is not None:
            return f"{_usd(price * 1_000)} per 1,000 results."
        case "FLAT_PRICE_PER_MONTH" if price is not None:
            days = (_number(info.get("trialMinutes")) or 0) / 1_440
            trial = f", after a trial of {days:g} days" if days else ""
            return f"{_usd(price)} per month{trial}, plus platform usage."
        case "PAY_PER_EVENT":
            shown = [f"{event.title}: {_usd(event.price_usd)}" for event in events[:3]]
            more = f" and {len(events) - 3} more" if len(events) > 3 else ""
            return f"Pay per event ({'; '.join(shown)}{more})." if shown else "Pay per event."
        case _:
            return f"Pricing model {model}."


def _events(info: JsonObject) -> tuple[contract.PricedEvent, ...]:
    per_event = info.get("pricingPerEvent")
    events = per_event.get("actorChargeEvents") if isinstance(per_event, dict) else None
    if not isinstance(events, dict):
        return ()
    found: list[contract.PricedEvent] = []
    for name, event in list(events.items())[:_MAX_EVENTS]:
        if not isinstance(event, dict):
            continue
        price = _number(event.get("eventPriceUsd"))
        if price is None:
            price = _first_tier(event.get("eventTieredPricingUsd"), "tieredEventPriceUsd")
        found.append(
            contract.PricedEvent(
                name=name,
                title=str(event.get("eventTitle") or name),
                description=str(event.get("eventDescription") or ""),
                price_usd=price or 0.0,
            )
        )
    return tuple(found)


def _first_tier(tiers: JsonValue, key: str) -> float | None:
    """Return the price of the lowest tier, which new accounts pay."""
    first = next(iter(tiers.values()), None) if isinstance(tiers, dict) else None
    return _number(first.get(key)) if isinstance(first, dict) else None


def _stats(
    stats: "apify.ActorStats | None",
    rating: float | None = None,
    reviews: int | None = None,
    bookmarks: int | None = None,
) -> contract.ActorStats:
    if stats is None:
        return contract.ActorStats()
    last: datetime | None = stats.last_run_started_at
    return contract.ActorStats(
        total_users=stats.total_users,
        monthly_users=stats.total_users30_days,
        total_runs=stats.total_runs,
        bookmarks=bookmarks if bookmarks is not None else stats.bookmark_count,
        rating=rating if rating is not None else stats.actor_review_rating,
        review_count=reviews if reviews is not None else stats.actor_review_count,
        success_rate=_success_rate(stats),
        last_run_started_at=last,
    )


def _success_rate(stats: "apify.ActorStats") -> float | None:
    """Return the share of ended runs that succeeded. Aborted runs do not count: their users ended them."""
    runs = stats.public_actor_run_stats30_days
    if runs is None:
        return None
    ended = (runs.succeeded or 0) + (runs.failed or 0) + (runs.timed_out or 0)
    return round((runs.succeeded or 0) / ended, 4) if ended else None


def _number(value: JsonValue) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _usd(price: float) -> str:
    return f"${price:,.2f}" if price >= 0.1 else f"${price:.6f}".rstrip("0").rstrip(".")


_OBJECT = TypeAdapter(JsonObject)


class ActorDefinition(Contract):
    """An Actor and its default build (Apify API v2, Actor and build objects)."""

    actor_id: str
    full_name: str
    title: str
    description: str
    input_schema: JsonObject = Field(default_factory=dict)
    readme: str | None = None
    dataset_schema: JsonObject | None = Field(default=None, description="Schema of its rows, if declared.")
    build_number: str | None = None
    mcp_path: str | None = Field(default=None, description="Path of an Actor that is an MCP server: `/mcp`.")
    is_standby: bool = Field(default=False, description="Whether it serves HTTP in standby mode.")
    picture_url: str | None = None
    default_memory_mbytes: int | None = Field(default=None, description="Default memory of its runs.")
    build_tags: tuple[str, ...] = Field(default=(), description="Tags of its builds, such as `latest`.")


class _Fields(Contract):
    """A dataset schema of the platform: the JSON Schema of the rows is in `fields`."""

    fields: JsonObject | None = None


class _Storages(Contract):
    dataset: _Fields | str | None = None


class _Definition(Contract):
    """The Actor definition of a build (`actor.json`)."""

    input: JsonObject | None = None
    readme: str | None = None
    storages: _Storages | None = None
    mcp_paths: str | None = Field(default=None, alias="webServerMcpPath")

    @property
    def dataset_schema(self) -> JsonObject | None:
        dataset = self.storages.dataset if self.storages else None
        return (dataset.fields or None) if isinstance(dataset, _Fields) else None

    @property
    def mcp_path(self) -> str | None:
        """The path of the streamable HTTP transport, out of a list that is separated by commas. Only absolute paths
        count: appended to a host, any other text could lead to another host.
        """
        paths = [path.strip() for path in (self.mcp_paths or "").split(",")]
        absolute = [path for path in paths if path.startswith("/") and not path.startswith("//")]
        return next((path for path in absolute if path.endswith("/mcp")), absolute[0] if absolute else None)


class _Build(Contract):
    """A build; newer ones hold the input schema as an object, older ones as text (`inputSchema`, deprecated)."""

    definition: _Definition = Field(default=_Definition(), alias="actorDefinition")
    input_schema: str | None = Field(default=None, alias="inputSchema")
    readme: str | None = None
    build_number: str | None = Field(default=None, alias="buildNumber")

    @field_validator("definition", mode="before")
    @classmethod
    def _empty_for_none(cls, value: object) -> object:
        return {} if value is None else value

    def parsed_input_schema(self) -> JsonObject:
        return self.definition.input or _OBJECT.validate_json(self.input_schema or "{}")


async def fetch_actor_definition(client: "apify.ApifyClientAsync", actor: str) -> ActorDefinition | None:
    """Return the definition of `actor` (`user/name` or id), or None if the caller cannot see it."""
    found = await fetch_actor(client, actor)
    return found[1] if found else None


async def actor_of_saved_task(client: "apify.ApifyClientAsync", task: str) -> str | None:
    """Return the id of the Actor that a saved task runs, or None if the caller cannot see the task."""
    found = await client.task(task).get()
    return found.act_id if found is not None else None


async def fetch_actor(
    client: "apify.ApifyClientAsync", actor: str
) -> tuple["apify.ActorResource", ActorDefinition] | None:
    """Return the Actor object and its definition, or None if the caller cannot see the Actor."""
    resource = client.actor(actor)
    found = await resource.get()
    if found is None:
        return None
    answer = await (await resource.default_build()).get()
    build = _Build.model_validate(answer.model_dump(by_alias=True, mode="json")) if answer else _Build()
    is_standby = found.actor_standby is not None and found.actor_standby.is_enabled is True
    return found, ActorDefinition(
        actor_id=found.id,
        full_name=f"{found.username}/{found.name}",
        title=found.title or found.name,
        description=found.description or "",
        input_schema=build.parsed_input_schema(),
        readme=build.definition.readme or build.readme,
        dataset_schema=build.definition.dataset_schema,
        build_number=build.build_number,
        mcp_path=build.definition.mcp_path if is_standby else None,
        is_standby=is_standby,
        picture_url=str(found.picture_url) if found.picture_url else None,
        build_tags=tuple(found.tagged_builds or ()),
        default_memory_mbytes=found.default_run_options.memory_mbytes if found.default_run_options else None,
    )


_INFERRED_RUNS = 3
_INFERRED_ROWS_PER_RUN = 10


class ActorActivities:
    """Reads Actors on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @activity.defn
    async def search_actors(self, request: actors.SearchActorsInput) -> actors.ActorSearchPage:
        """Return one page of the Actors that match the keywords, in the order in which Apify Store ranks them."""
        with as_activity_failure():
            page = (
                await self._platform.client(request.caller)
                .store()
                .list(
                    search=request.keywords or None,
                    category=request.category,
                    offset=request.offset,
                    limit=request.limit,
                )
            )
            return actors.ActorSearchPage(
                actors=tuple(card_of_store_item(item) for item in page.items), total=page.total, offset=request.offset
            )

    @activity.defn
    async def fetch_actor_details(self, request: actors.ActorDetailsInput) -> actors.ActorDetails:
        """An Actor with its input schema, README and output schema. Fails with `not_found` for an unknown Actor."""
        with as_activity_failure():
            client = self._platform.client(request.caller)
            found = await fetch_actor(client, request.actor)
            if found is None:
                raise _no_such_actor(request.actor)
            actor, definition = found
            readme, defaults = definition.readme or "", actor.default_run_options
            return actors.ActorDetails(
                card=card_of_actor(actor),
                input_schema=definition.input_schema,
                readme=readme[: request.max_readme_chars] if request.max_readme_chars else None,
                readme_chars=len(readme),
                output=await _output_schema(client, definition) if request.infer_output else None,
                run_defaults=actors.RunDefaults(
                    build=defaults.build, memory_mbytes=defaults.memory_mbytes, timeout_seconds=defaults.timeout_secs
                )
                if defaults
                else actors.RunDefaults(),
                build_number=definition.build_number,
                modified_at=actor.modified_at,
                mcp_path=definition.mcp_path,
            )


async def _output_schema(client: "apify.ApifyClientAsync", definition: ActorDefinition) -> actors.OutputSchema | None:
    """Return the schema of rows of the caller's recent runs; without rows the declared one, or None."""
    rows, runs = await _recent_rows(client, definition.actor_id)
    if rows:
        seen = len(rows)
        return actors.OutputSchema(
            item_schema=schema_of_items(rows), source="recent_runs", rows_seen=seen, runs_seen=runs
        )
    declared = definition.dataset_schema
    return actors.OutputSchema(item_schema=declared, source="declared") if declared else None


async def _recent_rows(client: "apify.ApifyClientAsync", actor_id: str) -> tuple[list[JsonValue], int]:
    """A few rows of the latest successful runs, and how many of these runs had rows. A failure gives the rows read so
    far: a run's dataset may have expired, and the details do not depend on it.
    """
    rows: list[JsonValue] = []
    runs = 0
    try:
        page = await client.actor(actor_id).runs().list(desc=True, limit=_INFERRED_RUNS, status="SUCCEEDED")
        for run in page.items:
            items = await client.dataset(run.default_dataset_id).list_items(limit=_INFERRED_ROWS_PER_RUN, clean=True)
            rows += items.items
            runs += bool(items.items)
    except Exception as error:  # noqa: BLE001 (the details are complete without it)
        activity.logger.warning("Cannot infer the output of Actor %s: %s", actor_id, classify(error).message)
    return rows, runs


def _no_such_actor(actor: str) -> ToolFailure:
    message = f"There is no Actor {actor!r} that this account can see."
    return ToolFailure.of(ErrorCategory.NOT_FOUND, message, "Name it as `user/name`, or by its id.")
