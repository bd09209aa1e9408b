"""Contracts of the activities that search Apify Store and look Actors up. Frozen and free of I/O imports."""

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from outlast.activities.contracts import Caller, Contract


class Shown(Contract):
    """Base of what answers show as it is: camelCase outside, as the platform and MCP clients spell it."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class SearchActorsInput(Contract):
    """Order for one page of a search in Apify Store (Apify API v2, `GET /v2/store`)."""

    caller: Caller
    keywords: str = ""
    category: str | None = None
    offset: int = 0
    limit: int = 10


class PricedEvent(Shown):
    """What an Actor charges for one thing that happens in its run."""

    name: str
    title: str
    description: str = ""
    price_usd: float


class ActorPricing(Shown):
    """What using an Actor costs, beyond the platform's usage where `model` says so."""

    model: str = Field(description="Apify's pricing model, for example FREE or PAY_PER_EVENT.")
    summary: str = Field(description="The price in words.")
    price_per_1000_results_usd: float | None = None
    price_per_month_usd: float | None = None
    trial_minutes: int | None = None
    events: tuple[PricedEvent, ...] = ()


class ActorStats(Shown):
    """How much an Actor is used, and how it does."""

    total_users: int | None = None
    monthly_users: int | None = None
    total_runs: int | None = None
    bookmarks: int | None = None
    rating: float | None = Field(default=None, description="Mean of the reviews, of 5.")
    review_count: int | None = None
    success_rate: float | None = Field(default=None, description="Share of the last 30 days' runs that succeeded, 0-1.")
    last_run_started_at: datetime | None = None


class ActorCard(Shown):
    """An Actor in a few words."""

    actor_id: str
    full_name: str = Field(description="`user/name`, by which the Actor is called.")
    title: str
    description: str = ""
    developer: str = Field(description="Who publishes the Actor.")
    url: str | None = Field(default=None, description="The Actor's page in Apify Store.")
    categories: tuple[str, ...] = ()
    pricing: ActorPricing | None = None
    stats: ActorStats = ActorStats()
    is_deprecated: bool = False
    notice: str | None = Field(default=None, description="What the platform warns about.")


class ActorSearchPage(Contract):
    """One page of a search. `total` counts the Actors on all pages."""

    actors: tuple[ActorCard, ...]
    total: int
    offset: int


class ActorDetailsInput(Contract):
    """Order for all that is known of one Actor."""

    caller: Caller
    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")
    max_readme_chars: int = Field(default=20_000, description="A longer README is cut; 0 leaves it out.")
    infer_output: bool = Field(default=False, description="Read rows of recent runs to see what the Actor produces.")


class RunDefaults(Shown):
    """How the Actor runs unless a call says otherwise."""

    build: str | None = None
    memory_mbytes: int | None = None
    timeout_seconds: int | None = None


class OutputSchema(Contract):
    """What rows of an Actor's dataset look like, and how that is known."""

    item_schema: dict[str, JsonValue]
    source: Literal["recent_runs", "declared"] = Field(
        description="Inferred from rows of the caller's recent runs, or declared by the Actor's own dataset schema."
    )
    rows_seen: int = 0
    runs_seen: int = 0


class ActorDetails(Contract):
    """An Actor with its input, its documentation, and what it produces."""

    card: ActorCard
    input_schema: dict[str, JsonValue] = Field(default_factory=dict, description="The Actor's own input schema.")
    readme: str | None = None
    readme_chars: int = Field(default=0, description="Length of the whole README, in characters.")
    output: OutputSchema | None = None
    run_defaults: RunDefaults = RunDefaults()
    build_number: str | None = None
    modified_at: datetime | None = None
    mcp_path: str | None = Field(default=None, description="Set for an Actor that is an MCP server itself.")
