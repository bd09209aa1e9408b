"""Objects of the platform's API, from workflow code."""

from typing import cast

from pydantic import JsonValue
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.platform_requests.activities import PlatformReadActivities, RunWatchActivities

from outlast.activities.contracts import JsonObject
from outlast.activities.platform_requests.contracts import PlatformReadInput, WatchRunInput
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import call_activity
from outlast.workflows.stubs.quick_reads import read_quickly

_MAX_SUMMARY_CHARS = 100
_MAX_BYTES = 1024 * 1024
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""Of an object of which only a part is recorded: a saved task may hold as much input as a run."""


class PlatformReads:
    """Reads for the caller of one call. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def get(self, *path: str, **parameters: str | int | bool | None) -> JsonObject:
        """The object below `/v2` at this path; parameters that are None are left out."""
        return cast(JsonObject, await self._read_object(path, parameters))

    async def part(self, *path: str, members: tuple[str, ...]) -> JsonObject:
        """These members of the object at this path, and nothing else of it: the rest is in no history."""
        return cast(JsonObject, await self._read_object(path, {}, members=members))

    async def run(self, run_id: str, *, wait_seconds: int = 0) -> JsonObject:
        """A run: when it has ended, or after that time. Progress is readable meanwhile."""
        if not wait_seconds:
            return await self.get("actor-runs", run_id)
        request = WatchRunInput(caller=self._call.caller, run_id=run_id, wait_seconds=wait_seconds)
        summary = f"watch run {run_id}"[:_MAX_SUMMARY_CHARS]
        # The caller chooses how long that takes: it must keep no workflow task.
        watched = await call_activity(self._call, RunWatchActivities.watch_run, request, summary=summary)
        return cast(JsonObject, watched.data)

    async def _read_object(
        self,
        path: tuple[str, ...],
        parameters: dict[str, str | int | bool | None],
        *,
        members: tuple[str, ...] | None = None,
    ) -> JsonValue:
        given = {name: value for name, value in parameters.items() if value is not None}
        request = PlatformReadInput(
            caller=self._call.caller,
            path=path,
            parameters=given,
            max_bytes=_MAX_BYTES if members is None else _MAX_WHOLE_BYTES,
            members=members,
        )
        summary, method = f"read {'/'.join(path)}"[:_MAX_SUMMARY_CHARS], PlatformReadActivities.read_platform
        return (await read_quickly(self._call, method, request, summary=summary)).data
