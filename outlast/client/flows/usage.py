"""Usage: what was spent."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, TypedDict

from outlast.client.flows.commands import Flow, HttpRequest, Params
from outlast.client.flows.server import Server, request
from outlast.client.problems import parsed

if TYPE_CHECKING:
    from outlast.client.contracts.usage import UsageReport


class UsageOptions(TypedDict, total=False):
    """Which entries are summed, and by what. What is left out, or None, is as the server has it."""

    first_day: date | None
    """The first of this month without it."""
    last_day: date | None
    """Today without it."""
    by: Sequence[str]
    """`day`, `tool`, `actor`, `model`, `session`, `payer`, `caller`; by day without it."""
    tool: str | None
    actor: str | None
    session_id: str | None
    caller: str | None
    """Another caller, or `*` for all: only with leave to see them."""


def usage(server: Server, options: UsageOptions) -> "Flow[UsageReport]":
    """The report."""
    response = yield from request(server, HttpRequest("GET", "/v1/usage", params=usage_params(options)))
    from outlast.client.contracts.usage import UsageReport  # noqa: PLC0415 (as the areas of the client)

    return parsed(UsageReport, response, server.url)


def usage_csv(server: Server, options: UsageOptions, *, csv_safe: bool = True) -> Flow[str]:
    """The rows of the report as CSV; with `csv_safe`, as the server writes it, for spreadsheets."""
    form = (("format", "csv"), *(() if csv_safe else (("csv_safe", "false"),)))
    wanted = HttpRequest("GET", "/v1/usage", params=(*usage_params(options), *form))
    return (yield from request(server, wanted)).body.decode()


def usage_params(options: UsageOptions) -> Params:
    """The query."""
    given = {
        "from": options.get("first_day"),
        "to": options.get("last_day"),
        "tool": options.get("tool"),
        "actor": options.get("actor"),
        "session_id": options.get("session_id"),
        "caller": options.get("caller"),
    }
    chosen = tuple((name, str(value)) for name, value in given.items() if value is not None)
    return (*chosen, *(("by", name) for name in options.get("by") or ()))
