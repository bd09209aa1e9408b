"""Contracts of the activities that search Apify Store and describe Actors."""

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

from outlast.activities.contracts import Caller, Contract


class CamelCaseContract(Contract):
    """Base of the contracts that answers contain unchanged: camelCase in JSON, as on the platform and in MCP."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class SearchActorsInput(Contract):
    """Input of `search_actors`: one page of a search in Apify Store (Apify API v2, `GET /v2/store`)."""

    caller: Caller
    keywords: str = ""
    category: str | None = None
    offset: int = 0
    limit: int = 10


class PricedEvent(CamelCaseContract):
    """The price of one kind of event in an Actor's runs."""

    name: str
    title: str
    description: str = ""
    price_usd: float


class ActorPricing(CamelCaseContract):
    """The price of an Actor; `summary` includes whether platform usage is charged in addition."""

    model: str = Field(description="Apify's pricing model, for example FREE or PAY_PER_EVENT.")
    summary: str = Field(description="The price in words.")
    price_per_1000_results_usd: float | None = None
    price_per_month_usd: float | None = None
    trial_minutes: int | None = None
    events: tuple[PricedEvent, ...] = ()


class ActorStats(CamelCaseContract):
    """The use of an Actor, and the share of its runs that succeed."""

    total_users: int | None = None
    monthly_users: int | None = None
    total_runs: int | None = None
    bookmarks: int | None = None
    rating: float | None = Field(default=None, description="Mean of the reviews, of 5.")
    review_count: int | None = None
    success_rate: float | None = Field(default=None, description="Share of the last 30 days' runs that succeeded, 0-1.")
    last_run_started_at: datetime | None = None


class ActorCard(CamelCaseContract):
    """A short description of an Actor."""

    actor_id: str
    full_name: str = Field(description="`user/name`: the name to call the Actor by.")
    title: str
    description: str = ""
    developer: str = Field(description="The publisher of the Actor.")
    url: str | None = Field(default=None, description="The Actor's page in Apify Store.")
    categories: tuple[str, ...] = ()
    pricing: ActorPricing | None = None
    stats: ActorStats = ActorStats()
    is_deprecated: bool = False
    notice: str | None = Field(default=None, description="A warning of the platform about the Actor.")


class ActorSearchPage(Contract):
    """One page of a search. `total` counts the Actors on all pages."""

    actors: tuple[ActorCard, ...]
    total: int
    offset: int


class ActorDetailsInput(Contract):
    """Input of `fetch_actor_details`: everything about one Actor."""

    caller: Caller
    actor: str = Field(description="Actor as `user/name`, `user~name` or id.")
    max_readme_chars: int = Field(default=20_000, description="A longer README is cut; 0 leaves it out.")
    infer_output: bool = Field(default=False, description="Infer the output schema from rows of recent runs.")


class RunDefaults(CamelCaseContract):
    """The Actor's run options when a call does not set them."""

    build: str | None = None
    memory_mbytes: int | None = None
    timeout_seconds: int | None = None


class OutputSchema(Contract):
    """The schema of the rows of an Actor's dataset, and where it comes from."""

    item_schema: dict[str, JsonValue]
    source: Literal["recent_runs", "declared"] = Field(
        description="Inferred from rows of the caller's recent runs, or declared by the Actor's own dataset schema."
    )
    rows_seen: int = 0
    runs_seen: int = 0


class ActorDetails(Contract):
    """An Actor with its input schema, its documentation and its output schema."""

    card: ActorCard
    input_schema: dict[str, JsonValue] = Field(default_factory=dict, description="The Actor's own input schema.")
    readme: str | None = None
    readme_chars: int = Field(default=0, description="Length of the whole README, in characters.")
    output: OutputSchema | None = None
    run_defaults: RunDefaults = RunDefaults()
    build_number: str | None = None
    modified_at: datetime | None = None
    mcp_path: str | None = Field(default=None, description="Set if the Actor is itself an MCP server.")
