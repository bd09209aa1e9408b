"""Actors of Apify Store, from workflow code: searching for them, and the details of one."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.actors.activities import ActorActivities

from outlast.activities.actors.contracts import ActorDetails, ActorDetailsInput, ActorSearchPage, SearchActorsInput
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.quick_reads import read_quickly

_MAX_SUMMARY_CHARS = 100


class Actors:
    """Searches Apify Store and describes Actors. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def search(self, *, keywords: str, category: str | None, offset: int, limit: int) -> ActorSearchPage:
        """One page of Actors that fit the keywords."""
        request = SearchActorsInput(
            caller=self._call.caller, keywords=keywords, category=category, offset=offset, limit=limit
        )
        summary = f"search Actors: {keywords}"[:_MAX_SUMMARY_CHARS]
        return await read_quickly(self._call, ActorActivities.search_actors, request, summary=summary)

    async def details(self, actor: str, *, max_readme_chars: int, infer_output: bool) -> ActorDetails:
        """All that is known of one Actor."""
        request = ActorDetailsInput(
            caller=self._call.caller, actor=actor, max_readme_chars=max_readme_chars, infer_output=infer_output
        )
        summary = f"look up Actor {actor}"[:_MAX_SUMMARY_CHARS]
        return await read_quickly(self._call, ActorActivities.fetch_actor_details, request, summary=summary)
