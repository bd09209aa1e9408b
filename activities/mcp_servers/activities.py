"""Activities that call Actors which are MCP servers, through an MCP client session with the Actor's standby URL. They
return the results of tools unchanged, but for what concerns the session alone: this is a proxy.
"""

import json
import re
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

from pydantic import SecretStr
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.actors.activities import fetch_actor_definition
from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import RETRYABLE, ToolFailure, as_activity_failure, redact
from outlast.activities.heartbeat import heartbeating
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.spending.contracts import Spend
from outlast.activities.spending.ledger import Ledgers, exceeded_cap, refused_by_cap

CALL_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
CALL_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    maximum_interval=timedelta(seconds=10),
    maximum_attempts=6,
)
MAX_ANSWER_BYTES: Final = 1_500_000
"""Temporal rejects payloads of 2 MB; larger results fail here, with a reason."""
_OF_THE_PROTOCOL = "io.modelcontextprotocol/"
"""Keys of `_meta` about the session with the Actor, such as its server. The entry point sends its own to clients."""

_HOST_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

Answer = TypeVar("Answer")


class McpActorActivities:
    """Lists and calls the tools of Actors that are MCP servers, on behalf of the caller that each request names."""

    def __init__(self, platform: ApifyPlatform, ledgers: Ledgers) -> None:
        self._platform = platform
        self._ledgers = ledgers

    @activity.defn
    async def list_mcp_tools(self, request: mcp.ListMcpToolsInput) -> mcp.McpToolList:
        """Return the tools of the server. Fails with `validation` for an Actor that is not an MCP server."""
        with as_activity_failure():
            return await fetch_mcp_tools(self._platform, request.caller, request.actor)

    @activity.defn
    async def call_mcp_tool(self, request: mcp.CallMcpToolInput) -> mcp.McpAnswer:
        """Call a tool at most once: when the result of a call is lost, the activity fails and does not call again. Does
        not call it when a spending cap leaves nothing.
        """
        with as_activity_failure():
            _refuse_second_call(request)
            await self._check_caps(request)
            url, token = await _standby_address(self._platform, request.caller, request.actor)
            arguments = cast(dict[str, Any], self._platform.open_input(dict(request.arguments), request.caller))
            # Loads the MCP SDK with its servers, which no other activity needs.
            from outlast.activities.mcp_servers.sessions import call_tool  # noqa: PLC0415

            async with heartbeating() as heartbeats:
                answer = await call_tool(url, token, request, arguments, heartbeats)
            return _answer_of(answer, request)

    async def _check_caps(self, request: mcp.CallMcpToolInput) -> None:
        """Raise `ToolFailure` when a cap leaves nothing. Nothing is reserved or booked: the platform charges the Actor
        in standby, and does not report the cost of single calls.
        """
        if request.caps is None:
            return
        spend = Spend(entry_id=uuid.uuid4().hex, actor=request.actor)
        refusal = await exceeded_cap(self._ledgers, spend, request.caller, request.caps)
        if refusal is not None:
            raise ToolFailure(refused_by_cap(refusal))


async def fetch_mcp_tools(platform: ApifyPlatform, caller: Caller, actor: str) -> mcp.McpToolList:
    """Return the tools of an Actor that is an MCP server. Raises `ToolFailure`, and what `apify-client` raises."""
    url, token = await _standby_address(platform, caller, actor)
    from outlast.activities.mcp_servers.sessions import list_tools  # noqa: PLC0415 (see above)

    tools, notes = await list_tools(url, token)
    return mcp.McpToolList(actor=actor, tools=tools, notes=notes)


def standby_url(api_base_url: str, *, full_name: str, actor_id: str, path: str) -> str:
    """The URL of an Actor that serves HTTP (Standby). On Apify it is `https://USER--NAME.apify.actor`, or the Actor's
    id as the first label of the host; on another platform it is `/standby/USER~NAME` on the API's own host.
    """
    if urlsplit(api_base_url).hostname != "api.apify.com":
        return f"{api_base_url}/standby/{full_name.replace('/', '~', 1)}{path}"
    label = full_name.replace("/", "--", 1)
    return f"https://{label if _HOST_LABEL.fullmatch(label) else actor_id.lower()}.apify.actor{path}"


async def _standby_address(platform: ApifyPlatform, caller: Caller, actor: str) -> tuple[str, SecretStr]:
    definition = await fetch_actor_definition(platform.client(caller), actor)
    if definition is None:
        raise mcp_failure(ErrorCategory.NOT_FOUND, f"There is no Actor {actor!r} that this account can see.")
    if definition.mcp_path is None:
        raise mcp_failure(
            ErrorCategory.VALIDATION,
            f"Actor {definition.full_name} is not an MCP server: it has no tools.",
            "Run it as `user/name`, without `:tool`.",
        )
    url = standby_url(
        platform.api_base_url,
        full_name=definition.full_name,
        actor_id=definition.actor_id,
        path=definition.mcp_path,
    )
    return url, platform.token(caller)


def _refuse_second_call(request: mcp.CallMcpToolInput) -> None:
    details = activity.info().heartbeat_details
    if details and mcp.CallPhase.model_validate(details[0]).sent:
        lost = ToolFailure.of(
            ErrorCategory.PLATFORM,
            "the worker that waited for its result was lost. The tool may have done its work.",
            "Check what the tool has changed before you call it again: it is not retried.",
        )
        raise not_called(lost, request)


def _answer_of(answer: dict[str, Any], request: mcp.CallMcpToolInput) -> mcp.McpAnswer:
    try:
        refuse_unknown_result(answer)
    except ToolFailure as error:
        raise not_called(error, request) from None
    size = answer_bytes(answer)
    if size > MAX_ANSWER_BYTES:
        large = f"it returned {size:,} bytes; at most {MAX_ANSWER_BYTES:,} are supported."
        raise not_called(mcp_failure(ErrorCategory.VALIDATION, large, "Ask the tool for less."), request)
    return as_mcp_answer(answer)


def refuse_unknown_result(answer: dict[str, Any]) -> None:
    """Raise `ToolFailure` for a result that is not the end of the call."""
    kind = answer.get("resultType", "complete")
    if kind != "complete":
        unknown = f"it returned a result of type {kind!r}, which is not supported here."
        raise mcp_failure(ErrorCategory.VALIDATION, unknown)


def answer_bytes(answer: dict[str, Any]) -> int:
    """Return the size of a raw result in bytes. Content repeats the structured form as text (MCP, "Structured
    Content"): the larger of the two counts.
    """
    parts = [{"content": answer.get("content")}, {"structuredContent": answer.get("structuredContent")}]
    return max(len(json.dumps(part, ensure_ascii=False).encode()) for part in parts)


def as_mcp_answer(answer: dict[str, Any]) -> mcp.McpAnswer:
    """Return a raw result as it is recorded."""
    meta: dict[str, Any] = answer.get("_meta") or {}
    return mcp.McpAnswer(
        content=tuple(answer.get("content") or ()),
        structured=answer.get("structuredContent"),
        is_error=answer.get("isError") is True,
        meta={key: value for key, value in meta.items() if not key.startswith(_OF_THE_PROTOCOL)},
    )


def mcp_failure(category: ErrorCategory, message: str, hint: str | None = None) -> ToolFailure:
    """Return a failure of this category, retryable as the category is, without secrets in its message."""
    return ToolFailure.of(category, redact(message), hint, retryable=category in RETRYABLE)


def without_secrets(server: str, missing: Sequence[str], *, tool: str = "") -> ToolFailure:
    """Return the failure of a call whose caller lacks these secrets for an MCP server."""
    header = f"Outlast-Secret-{missing[0].replace('_', '-').title()}"
    return ToolFailure(
        ErrorEnvelope.permanent(
            ErrorCategory.AUTHENTICATION,
            tool,
            f"The MCP server {server} needs a secret of the caller: {' and '.join(missing)}. The tool was not called.",
            hint=f"Send it with each request in the header {header}, or ask the operator to name it in the policy "
            f"file: server_secrets.{missing[0]} of the caller.",
        )
    )


def not_connected(error: ToolFailure, request: mcp.CallMcpToolInput) -> ToolFailure:
    """Return the failure of a call whose server was not reached."""
    return _with_message(error, f"{mcp.NOT_CONNECTED} {request.actor}: {error.envelope.message}")


def not_called(error: ToolFailure, request: mcp.CallMcpToolInput) -> ToolFailure:
    """Return the failure of a call that was sent. It is never retried: the tool may have done its work."""
    where = f"{mcp.NOT_CALLED} '{request.tool}' on Actor '{request.actor}'"
    if not error.envelope.retryable:
        return _with_message(error, f"{where}: {error.envelope.message}")
    lost = _with_message(error, f"{where}: its result was lost: {error.envelope.message}")
    hint = "The tool may have done its work. Check what it has changed before you call it again."
    return ToolFailure(lost.envelope.model_copy(update={"retryable": False, "hint": hint}))


def _with_message(error: ToolFailure, message: str) -> ToolFailure:
    return ToolFailure(error.envelope.model_copy(update={"message": message}))
