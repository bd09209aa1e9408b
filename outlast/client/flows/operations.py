"""How a server is doing."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from outlast.client.flows.commands import Flow, HttpRequest
from outlast.client.flows.server import Server, probe, request
from outlast.client.problems import api_error, parsed

if TYPE_CHECKING:
    from outlast.client.contracts.operations import CallerHoldings, Operations


def operations(server: Server) -> "Flow[Operations]":
    """How it is doing now."""
    response = yield from request(server, HttpRequest("GET", "/v1/operations"))
    from outlast.client.contracts.operations import Operations  # noqa: PLC0415 (as the areas of the client)

    return parsed(Operations, response, server.url)


def holdings(server: Server, caller: str | None) -> "Flow[CallerHoldings]":
    """What a caller has that lasts longer than a request."""
    params = () if caller is None else (("caller", caller),)
    response = yield from request(server, HttpRequest("GET", "/v1/operations/holdings", params))
    from outlast.client.contracts.operations import CallerHoldings  # noqa: PLC0415 (as the areas of the client)

    return parsed(CallerHoldings, response, server.url)


def metrics(server: Server) -> Flow[str]:
    """Its metrics, asked for once, without a credential."""
    response = yield from probe(server, "/metrics")
    if response.is_error:
        raise api_error(response)
    return response.body.decode(errors="replace")


def server_time(server: Server) -> Flow[datetime | None]:
    """The server's clock, asked once, without a credential."""
    response = yield from probe(server, "/healthz")
    try:
        return parsedate_to_datetime(response.headers["date"])
    except (KeyError, ValueError):
        return None
