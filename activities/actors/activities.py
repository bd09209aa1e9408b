"""Activities that search Apify Store and describe Actors."""

from pydantic import JsonValue
from temporalio import activity

from outlast.activities import apify
from outlast.activities.actors import contracts as actors
from outlast.activities.actors.cards import ActorDefinition, card_of_actor, card_of_store_item, fetch_actor
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.classify import ToolFailure, classify
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.storages.item_schema import schema_of_items

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
