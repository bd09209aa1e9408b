"""Writing objects of the platform's API, from workflow code."""

from typing import Literal, cast

from pydantic import JsonValue
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.platform_requests.activities import PlatformWriteActivities

from outlast.activities.contracts import JsonObject
from outlast.activities.platform_requests.contracts import PlatformWriteInput
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import call_activity

_MAX_SUMMARY_CHARS = 100


class PlatformWrites:
    """Writes for the caller of one call. Every method raises `ToolError` when the platform refuses."""

    def __init__(self, call: ToolCall) -> None:
        """Act for the caller of `call`."""
        self._call = call

    async def create(
        self,
        collection: str,
        body: JsonObject,
        *,
        found_at: str,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        """A new object of a collection; `found_at` names it there, so that it is made once whatever fails.

        What lies at the places `texts` of the body is sent as its JSON text; the places `hidden` are not answered.
        """
        made = (collection, found_at)
        return await self._write("POST", (collection,), body, made=made, texts=texts, hidden=hidden)

    async def update(
        self,
        collection: str,
        reference: str,
        body: JsonObject,
        *,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        """The object with these fields changed; `texts` and `hidden` as for `create`."""
        return await self._write("PUT", (collection, reference), body, texts=texts, hidden=hidden)

    async def delete(self, collection: str, reference: str) -> None:
        """Remove the object."""
        await self._write("DELETE", (collection, reference), None)

    async def _write(
        self,
        method: Literal["POST", "PUT", "DELETE"],
        path: tuple[str, ...],
        body: JsonValue,
        *,
        made: tuple[str, ...] | None = None,
        texts: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
    ) -> JsonObject:
        request = PlatformWriteInput(
            caller=self._call.caller, method=method, path=path, body=body, made=made, texts=texts, hidden=hidden
        )
        summary = f"{method.lower()} {'/'.join(path)}"[:_MAX_SUMMARY_CHARS]
        written = await call_activity(self._call, PlatformWriteActivities.write_platform, request, summary=summary)
        return cast(JsonObject, written.data)
