"""Routes of the MCP servers in the operator's file, for admins: `/v1/servers`."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from outlast.activities.mcp_servers.contracts import ServerStatus
from outlast.activities.unicode_text import printable
from outlast.api.catalog.servers import ServerReview, ServerTools
from outlast.api.errors import PlatformUnavailable, ServerNotFound
from outlast.api.http.dependencies import KnownParametersRoute, OperatorDep, ServicesDep
from outlast.api.http.problems import documented_problems
from outlast.api.services import Services
from outlast.contracts.servers import (
    McpPinChange,
    McpQuarantinedTool,
    McpServer,
    McpServerDetails,
    McpServerList,
    McpServerPin,
    McpServerTool,
)
from outlast.workflows.tools.core.server_tools import server_tool_name
from outlast.workflows.tools.framework.tool import Tool

router = APIRouter(prefix="/v1/servers", tags=["servers"], route_class=KnownParametersRoute)
_DEFAULT_AGE_SECONDS = 3_600.0
NamePath = Annotated[str, Path(min_length=1, max_length=64, description="Name of the server in the file.")]
AgeQuery = Annotated[
    float, Query(ge=0, le=86_400, description="List its tools again if the last list is older; 0: in any case.")
]


@router.get("", responses=documented_problems(401, 403, 503))
async def list_servers(services: ServicesDep, _operator: OperatorDep) -> McpServerList:
    """The MCP servers in the operator's file with their states. Empty without a file."""
    servers = services.server_tools
    if servers is None:
        return McpServerList(servers=(), problem=None)
    found = await servers.statuses()
    await servers.remember(found)
    return McpServerList(
        servers=tuple([McpServer(**_fields(one, await servers.review(one.server))) for one in found]),
        problem=servers.problem,
        lock_problem=servers.lock_problem,
    )


@router.get("/{name}", responses=documented_problems(401, 403, 404, 422, 503))
async def get_server(
    name: NamePath, services: ServicesDep, _operator: OperatorDep, max_age_seconds: AgeQuery = _DEFAULT_AGE_SECONDS
) -> McpServerDetails:
    """One MCP server with its tools, and the rules for their calls."""
    servers = _servers(services, name)
    listing = await servers.listing(name, max_age_seconds=max_age_seconds)
    status, review = await servers.status(name), await servers.review(name)
    return McpServerDetails(
        **_fields(status, review),
        protocol=listing.protocol,
        instructions=listing.instructions,
        listed_at=listing.listed_at if listing.tools or listing.error is None else None,
        offered=tuple(_view(tool, review) for tool in servers.tools_of(name)),
        quarantine=tuple(_quarantined(servers, name, tool, review) for tool in review.quarantined),
        instruction_flags=review.instruction_flags,
        package=review.listed.package.shown if review.listed.package is not None else None,
        package_change=review.package_change,
        notes=listing.notes,
    )


@router.get("/{name}/pin", responses=documented_problems(401, 403, 404, 422, 503))
async def get_server_pin(
    name: NamePath, services: ServicesDep, _operator: OperatorDep, max_age_seconds: AgeQuery = _DEFAULT_AGE_SECONDS
) -> McpServerPin:
    """The record of an MCP server for the lock file, and how it differs from the one in force."""
    servers = _servers(services, name)
    listing = await servers.listing(name, max_age_seconds=max_age_seconds)
    if listing.error is not None:
        raise PlatformUnavailable(f"The MCP server {name!r} cannot be listed now: {listing.error}")
    review = await servers.review(name)
    return McpServerPin(
        name=name,
        listed=review.listed.model_dump(mode="json"),
        pinned=review.pin.model_dump(mode="json") if review.pin is not None else None,
        changes=tuple(McpPinChange(**change.model_dump()) for change in review.changes),
    )


def _servers(services: Services, name: str) -> ServerTools:
    if services.server_tools is None:
        raise ServerNotFound(
            f"There is no MCP server {name!r}: this installation has no servers file (OUTLAST_MCP_SERVERS_FILE)."
        )
    return services.server_tools


def _fields(status: ServerStatus, review: ServerReview) -> dict[str, Any]:
    flagged = len(review.flags) + bool(review.instruction_flags)
    counts = {"pinned": review.pin is not None, "quarantined": len(review.quarantined), "flagged": flagged}
    return {"name": status.server, **status.model_dump(exclude={"server"}), **counts}


def _quarantined(servers: ServerTools, name: str, tool: str, review: ServerReview) -> McpQuarantinedTool:
    listed = servers.listed(name, tool)
    return McpQuarantinedTool(
        name=tool,
        called=server_tool_name(name, tool),
        reason=review.quarantined[tool],
        description=printable(listed.description) if listed is not None else "",
        flags=review.flags.get(tool, ()),
    )


def _view(tool: Tool, review: ServerReview) -> McpServerTool:
    target = tool.server
    assert target is not None
    return McpServerTool(
        name=target.tool,
        called=tool.name,
        description=tool.description,
        read_only=target.read_only,
        destructive=target.destructive,
        session=target.session or "conversation or caller",
        repeats_safely=target.repeats_safely,
        idempotency_argument=target.idempotency_argument,
        verified_by=target.verify.tool if target.verify is not None else None,
        needs_approval=target.needs_approval,
        flags=review.flags.get(target.tool, ()),
    )
