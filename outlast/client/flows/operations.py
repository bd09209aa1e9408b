"""How a server is doing."""

from outlast.client.contracts.operations import Operations
from outlast.client.flows.commands import Flow, HttpRequest
from outlast.client.flows.server import Server, request
from outlast.client.problems import parsed


def operations(server: Server) -> Flow[Operations]:
    """How it is doing now."""
    response = yield from request(server, HttpRequest("GET", "/v1/operations"))
    return parsed(Operations, response, server.url)
