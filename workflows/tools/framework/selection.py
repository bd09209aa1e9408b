"""Selection of the tools that a connection offers, by its parameters. A mode may have its own rules."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.workflows.contracts.unknown_fields import unknown_name
from outlast.workflows.tools.framework.tool import Category, Tool

TOOL_ALIASES = {"get-actor-run-log": "get-actor-log"}
"""Names of the same tools in other Apify MCP servers: accepted, never listed."""
DEFAULT_SELECTORS = (Category.ACTORS.value, Category.DOCS.value)

TAG = "tag:"
"""Beginning of a selector that means all tools with a tag."""
Parameters = Mapping[str, Sequence[str]]
"""Parameters of a URL, or flags of a command: each name with its values in their order."""


class UnknownName(ValueError):
    """A parameter has a name that is unknown in the mode."""


class UnknownTag(ValueError):
    """A selection has a tag that no tool has."""


@dataclass(frozen=True)
class GivenCall:
    """A call as its client sent it, with the places that may contain a payment."""

    tool: str
    arguments: Mapping[str, JsonValue]
    meta: Mapping[str, Any]
    signature: str | None = None
    """The header `PAYMENT-SIGNATURE` of the HTTP request."""


@dataclass(frozen=True)
class TakenPayment:
    """A call without its payment."""

    arguments: dict[str, JsonValue]
    payment: SecretStr | None = None
    unpaid: ErrorEnvelope | None = None
    """Error of a call that lacks a payment."""
    terms: JsonObject | None = None
    """Terms for that payment, if the platform gave some."""


@dataclass(frozen=True)
class Payment:
    """A means of payment in place of the account: how tools require it, and where calls have it.

    Tools of Actors that are MCP servers, and of saved tasks, are paid by their account.
    """

    name: str
    """Name of the platform's protocol, `skyfire` or `x402`, which decides the header for the payment."""
    names_payer: bool = False
    """True if all of a call's requests are made as the payer. Otherwise they are made with the account, and only starts
    of runs carry the payment."""
    needs_terms: bool = False
    """True if `with_terms` has to get the platform's terms first."""

    def with_terms(self, _terms: JsonObject | None) -> "Payment":
        """Return the payment on the platform's current terms; None if they are unknown."""
        return self

    def can_pay(self, definition: Tool) -> bool:
        """Return whether calls of the tool are free or can be paid."""
        return not definition.runs_actor or (definition.calls_actor and not definition.planned_tasks)

    def taken_from(self, call: GivenCall) -> TakenPayment:
        """Separate the payment from a call of a paid tool. Raises `ToolError` if it is missing and the call fails."""
        raise NotImplementedError

    def applied_to(self, definition: Tool) -> Tool:
        """Return the definition that requires the payment."""
        raise NotImplementedError


@dataclass(frozen=True)
class ClientFacts:
    """The client's description of itself, for modes in which the list of tools depends on it."""

    name: str = ""
    is_modern: bool = False
    """True for MCP 2026-07-28 or later."""
    shows_apps: bool = False
    """True if it declares support for MCP Apps."""


@dataclass(frozen=True)
class Selection:
    """Tools that a connection selects. `selectors` None means `default_selectors` and `default_actors`."""

    mode: str = "default"
    selectors: tuple[str, ...] | None = None
    actors: tuple[str, ...] = ()
    added_actors: tuple[str, ...] = ()
    """Actors that were added during the connection."""
    default_selectors: tuple[str, ...] = DEFAULT_SELECTORS
    default_actors: tuple[str, ...] = ()
    payment: Payment | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Further parameters of the mode, by name."""
    client: ClientFacts = ClientFacts()

    def option(self, name: str) -> str | None:
        """Return a further parameter; None if absent."""
        return dict(self.options).get(name)


@dataclass(frozen=True)
class Choice:
    """Selected tools in the order of the selectors, and Actors that have to be loaded."""

    tools: tuple[Tool, ...]
    actors: tuple[str, ...]


@dataclass(frozen=True)
class LoadedChoice:
    """A choice with loaded Actors; the mode's tools in `available`, and the `companions` of every connection."""

    tools: tuple[Tool, ...]
    actor_tools: tuple[Tool, ...]
    available: Mapping[str, Tool]
    companions: tuple[Tool, ...] = ()


@dataclass(frozen=True)
class SelectionRules:
    """A mode's rules for reading the parameters of a connection and choosing its tools."""

    read: Callable[[str, Parameters], Selection]
    """Read the selection in the mode of this name. Raises `ValueError` for an invalid parameter."""
    choose: Callable[[Selection, Mapping[str, Tool]], Choice]
    """Choose the selected tools of the mode; other names are Actors."""
    arrange: Callable[[Selection, LoadedChoice], list[Tool]]
    """Put the tools in their listed order, and add their companions."""
    reads_ui: bool = False
    """True if the mode has a parameter `ui`; otherwise `ui` names a mode."""
    environment: tuple[tuple[str, str], ...] = ()
    """Pairs of a parameter and the environment variable with its default for commands."""
    shows_clients: bool = False
    """True if the choice depends on `Selection.client`."""
    shows_apps: Callable[[Selection], bool] = lambda _selection: False
    """Return whether a connection has the pages that only some connections in the mode have."""


def without_tags(selectors: Iterable[str], tools: Iterable[Tool]) -> tuple[str, ...]:
    """Replace each selector `tag:NAME` with the names of the tools that have this tag.

    Raises `UnknownTag` for a tag that none of `tools` has.
    """
    given = tuple(selectors)
    if not any(selector.startswith(TAG) for selector in given):
        return given
    tagged: dict[str, list[str]] = {}
    for definition in tools:
        for tag in definition.tags:
            tagged.setdefault(TAG + tag, []).append(definition.name)
    unknown = next((selector for selector in given if selector.startswith(TAG) and selector not in tagged), None)
    if unknown is not None:
        raise UnknownTag(unknown_name("tag", unknown, tagged))
    return tuple(name for selector in given for name in tagged.get(selector, [selector]))


def names_in(parameters: Parameters, name: str) -> tuple[str, ...] | None:
    """Return the comma-separated names in all values of a parameter; None if it is absent."""
    values = parameters.get(name)
    if not values:
        return None
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())
