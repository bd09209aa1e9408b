"""Routes of the MCP servers in the operator's file, for admins: `/v1/servers`."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from outlast.api.catalog.servers import ServerTools
from outlast.api.errors import ServerNotFound
from outlast.api.http.dependencies import KnownParametersRoute, OperatorDep, ServicesDep
from outlast.api.http.problems import documented_problems
from outlast.api.services import Services
from outlast.contracts.servers import McpServer, McpServerDetails, McpServerList, McpServerTool
from outlast.workflows.tools.framework.tool import Tool

router = APIRouter(prefix="/v1/servers", tags=["servers"], route_class=KnownParametersRoute)
_DEFAULT_AGE_SECONDS = 3_600.0


@router.get("", responses=documented_problems(401, 403, 503))
async def list_servers(services: ServicesDep, _operator: OperatorDep) -> McpServerList:
    """The MCP servers in the operator's file with their states. Empty without a file."""
    servers = services.server_tools
    if servers is None:
        return McpServerList(servers=(), problem=None)
    found = await servers.statuses()
    return McpServerList(
        servers=tuple(McpServer(name=one.server, **one.model_dump(exclude={"server"})) for one in found),
        problem=servers.problem,
    )


@router.get("/{name}", responses=documented_problems(401, 403, 404, 422, 503))
async def get_server(
    name: Annotated[str, Path(min_length=1, max_length=64, description="Name of the server in the file.")],
    services: ServicesDep,
    _operator: OperatorDep,
    max_age_seconds: Annotated[
        float, Query(ge=0, le=86_400, description="List its tools again if the last list is older; 0: in any case.")
    ] = _DEFAULT_AGE_SECONDS,
) -> McpServerDetails:
    """One MCP server with its tools, and the rules for their calls."""
    servers = _servers(services, name)
    listing = await servers.listing(name, max_age_seconds=max_age_seconds)
    status = await servers.status(name)
    return McpServerDetails(
        name=name,
        **status.model_dump(exclude={"server"}),
        protocol=listing.protocol,
        instructions=listing.instructions,
        listed_at=listing.listed_at if listing.tools or listing.error is None else None,
        offered=tuple(_view(tool) for tool in servers.tools_of(name)),
        notes=listing.notes,
    )


def _servers(services: Services, name: str) -> ServerTools:
    if services.server_tools is None:
        raise ServerNotFound(
            f"There is no MCP server {name!r}: this installation has no servers file (OUTLAST_MCP_SERVERS_FILE)."
        )
    return services.server_tools


def _view(tool: Tool) -> McpServerTool:
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
    )
