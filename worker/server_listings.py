"""Tools of the MCP servers in the operator's file, by the lists that the servers' workflows keep."""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from temporalio.client import Client, WorkflowUpdateFailedError

from outlast.activities.contracts import Caller, ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import SealError
from outlast.activities.mcp_servers import contracts as mcp
from outlast.activities.mcp_servers.config import McpServer, RetryArgument, ServerOptions, ServersFile
from outlast.activities.mcp_servers.pins import without_quarantined
from outlast.activities.secrets import SecretSealer, server_secret_purpose
from outlast.activities.workflow_requests import update_with_start
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ServerTarget
from outlast.workflows.programs.stubs import python_name
from outlast.workflows.tools.core.server_tools import SEPARATOR, server_tool, server_tool_name
from outlast.workflows.tools.framework.tool import Tool

_MAX_AGE_SECONDS = 300.0
_KEPT_SECONDS = 30.0


def variant_of(server: McpServer, caller: Caller, sealer: SecretSealer) -> str | None:
    """Return the name of the list that this caller has of a server, by a digest of its secrets; None if it lacks one,
    or if the server has the same list for everybody.
    """
    needed = server.caller_secrets
    if not needed or any(name not in caller.server_secrets for name in needed):
        return None
    purpose = server_secret_purpose(caller.id)
    try:
        opened = [sealer.open(caller.server_secrets[name], purpose=purpose).get_secret_value() for name in needed]
    except SealError:
        return None
    return sealer.digests([caller.id, *opened])[0][:32]


async def listing_of(
    client: Client,
    server: McpServer,
    digest: str,
    max_age_seconds: float,
    caller: Caller | None = None,
    variant: str | None = None,
) -> mcp.ServerListing:
    """Return a list of the server's tools that is not older, from its workflow; with `variant`, that of the caller.

    A server that cannot be listed now has its last list, and `error`. Raises `TemporalError`.
    """
    request = mcp.ListServerInput(server=server.name, config_digest=digest, max_age_seconds=max_age_seconds)
    if caller is not None and variant is not None:
        secrets = {name: caller.server_secrets[name] for name in server.caller_secrets}
        request = request.model_copy(update={"caller_id": caller.id, "caller_secrets": secrets})
    return await update_with_start(
        client,
        mcp.LIST_TOOLS_UPDATE,
        request,
        mcp.ServerListing,
        mcp.SERVER_WORKFLOW,
        mcp.ServerState(server=server.name, kind=server.kind),
        id=mcp.server_workflow_id(server.name, variant),
        task_queue=TOOLS_TASK_QUEUE,
    )


def tools_from(server: str, listing: mcp.ServerListing, options: ServerOptions, digest: str) -> Iterable[Tool]:
    """Return the offered tools of a list, under their names."""
    listed = [tool for tool in listing.tools if options.offers(tool.name)]
    is_stateless = all(tool.read_only or tool.idempotent for tool in listed)
    for tool in listed:
        target = target_of(server, tool, options, digest, is_stateless=is_stateless)
        yield server_tool(server_tool_name(server, tool.name), tool, target)


def target_of(
    server: str, tool: mcp.McpTool, options: ServerOptions, digest: str, *, is_stateless: bool
) -> ServerTarget:
    """Return what calls of a tool need to know: by the operator's options, else by its annotations."""
    retry = options.retry_of(tool.name)
    is_safe = tool.read_only or tool.idempotent
    return ServerTarget(
        server=server,
        tool=tool.name,
        session=options.session or ("shared" if is_stateless else None),
        repeats_safely=retry == "always" or (is_safe and retry is None),
        idempotency_argument=retry.argument if isinstance(retry, RetryArgument) else None,
        verify=options.verify_of(tool.name),
        timeout_seconds=options.timeout_seconds,
        read_only=tool.read_only,
        destructive=tool.destructive and not tool.read_only,
        needs_approval=options.asks_approval(tool.name),
        config_digest=digest,
    )


@dataclass(frozen=True)
class _Listed:
    digest: str
    options: ServerOptions
    at: float
    """`time.monotonic()`, in seconds."""
    tools: dict[str, Tool]


class ListedTools:
    """Tools of the servers in the file, for the calls that functions of this worker make."""

    def __init__(self, file: ServersFile, client: Client) -> None:
        self._file = file
        self._client = client
        self._listed: dict[str, _Listed] = {}

    def is_one(self, name: str) -> bool:
        """Return whether the name begins as those of a server's tools do."""
        return any(name.startswith(f"{server}{SEPARATOR}") for server in self._file.current)

    async def around(self, name: str) -> dict[str, Tool]:
        """Return the tools of the servers whose names `name` begins with. Raises `ToolFailure` for a server without a
        list.
        """
        servers = self._file.current
        named = [servers[server] for server in servers if name.startswith(f"{server}{SEPARATOR}")]
        tools: dict[str, Tool] = {}
        for server in named:
            tools.update(await self._tools(server, servers.digest(server.name)))
        return tools

    async def of_words(self, words: Collection[str]) -> list[Tool]:
        """Return the tools of the servers to which a function of a program may belong. Raises as `around`."""
        servers = self._file.current
        tools: list[Tool] = []
        for server in servers:
            if any(word.startswith(python_name(f"{server}{SEPARATOR}")) for word in words):
                tools += (await self._tools(servers[server], servers.digest(server))).values()
        return tools

    async def _tools(self, server: McpServer, digest: str) -> dict[str, Tool]:
        kept = self._listed.get(server.name)
        is_same = kept is not None and (kept.digest, kept.options) == (digest, server.options)
        if kept is not None and is_same and time.monotonic() - kept.at < _KEPT_SECONDS:
            return kept.tools
        try:
            # Workers list only the tools that the options offer, and the digest does not contain these.
            max_age = _MAX_AGE_SECONDS if kept is None or is_same else 0.0
            listing = await listing_of(self._client, server, digest, max_age)
        except WorkflowUpdateFailedError as error:
            raise _not_listed(server.name, str(error.cause or error)) from None
        if listing.error is not None and not listing.tools:
            raise _not_listed(server.name, listing.error)
        listing, _ = without_quarantined(listing, self._file.lock.current.get(server.name))
        tools = {tool.name: tool for tool in tools_from(server.name, listing, server.options, digest)}
        self._listed[server.name] = _Listed(digest, server.options, time.monotonic(), tools)
        return tools


def _not_listed(server: str, reason: str) -> ToolFailure:
    message = f"The tools of the MCP server {server!r} are not known: {reason}"
    return ToolFailure.of(ErrorCategory.PLATFORM, message[:500], retryable=True)
