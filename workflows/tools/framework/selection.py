"""Selection of the tools that a connection offers, from its parameters. A mode may have its own rules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.tools.framework.tool import Category, Tool

TOOL_ALIASES = {"get-actor-run-log": "get-actor-log"}
"""Names that other Apify MCP servers use for the same tools: accepted, never listed."""


DEFAULT_SELECTORS = (Category.ACTORS.value, Category.DOCS.value)

Parameters = Mapping[str, Sequence[str]]
"""The parameters of a URL, or the flags of a command: each name with its values, in the order in which they came."""


class UnknownName(ValueError):
    """A parameter has a name that the mode does not read."""


@dataclass(frozen=True)
class GivenCall:
    """A call as its client wrote it, with the places in which a payment may be."""

    tool: str
    arguments: Mapping[str, JsonValue]
    meta: Mapping[str, Any]
    signature: str | None = None
    """The header `PAYMENT-SIGNATURE` of the HTTP request."""


@dataclass(frozen=True)
class TakenPayment:
    """A call without its payment. `unpaid` says what is missing of one that has none, and has to have one; `terms` how
    it can be paid, where the platform has said so."""

    arguments: dict[str, JsonValue]
    payment: SecretStr | None = None
    unpaid: ErrorEnvelope | None = None
    terms: JsonObject | None = None


class Payment(Protocol):
    """A means of payment in place of the account: how tools ask for it, and where calls have it."""

    @property
    def name(self) -> str:
        """By which a connection asks for it."""
        ...

    @property
    def names_payer(self) -> bool:
        """Whether all of a call's requests are made as the payer. Otherwise they are made with the account, and only
        starts of runs carry the payment.

        Then `name` is that of the platform's protocol, `skyfire` or `x402`: it says in which header the payment goes.
        """
        ...

    @property
    def needs_terms(self) -> bool:
        """Whether the platform's terms belong in `with_terms`, before anything else is asked."""
        ...

    def with_terms(self, terms: JsonObject | None) -> "Payment":
        """The payment on the platform's terms of today; None when they are not known."""
        ...

    def taken_from(self, call: GivenCall) -> TakenPayment:
        """The payment of a call of a paid tool. Raises `ToolError` where nothing else matters without one."""
        ...

    def can_pay(self, definition: Tool) -> bool:
        """Whether calls of the tool are free or can be paid."""
        ...

    def applied_to(self, definition: Tool) -> Tool:
        """The definition that asks for the payment."""
        ...


@dataclass(frozen=True)
class ClientFacts:
    """The client's description of itself, for modes in which the list of tools depends on it."""

    name: str = ""
    is_modern: bool = False
    """Whether it speaks MCP 2026-07-28 or later."""
    shows_apps: bool = False
    """Whether it declares that it shows MCP Apps."""


@dataclass(frozen=True)
class Selection:
    """The tools that a connection asks for. `selectors` None means `default_selectors` and `default_actors`."""

    mode: str = "default"
    selectors: tuple[str, ...] | None = None
    actors: tuple[str, ...] = ()
    added_actors: tuple[str, ...] = ()
    """Those that the connection has added since it began."""
    default_selectors: tuple[str, ...] = DEFAULT_SELECTORS
    default_actors: tuple[str, ...] = ()
    payment: Payment | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Further parameters that the mode's rules know, by name."""
    client: ClientFacts = ClientFacts()

    def option(self, name: str) -> str | None:
        """A further parameter; None when it was not given."""
        return dict(self.options).get(name)


@dataclass(frozen=True)
class Choice:
    """What selectors name: tools in the order in which they were chosen, and Actors that have to be loaded."""

    tools: tuple[Tool, ...]
    actors: tuple[str, ...]


@dataclass(frozen=True)
class LoadedChoice:
    """A choice whose Actors were loaded, and what the mode has: `available`, `companions` of every connection."""

    tools: tuple[Tool, ...]
    actor_tools: tuple[Tool, ...]
    available: Mapping[str, Tool]
    companions: tuple[Tool, ...] = ()


@dataclass(frozen=True)
class SelectionRules:
    """How a mode reads the parameters of a connection, and which tools they choose."""

    read: Callable[[str, Parameters], Selection]
    """The selection of the mode of this name. Raises `ValueError` for a parameter that the mode refuses."""
    choose: Callable[[Selection, Mapping[str, Tool]], Choice]
    """What a selection names of the mode's tools; other names are Actors."""
    arrange: Callable[[Selection, LoadedChoice], list[Tool]]
    """The tools in the order in which they are listed, with those that are offered beside them."""
    reads_ui: bool = False
    """Whether the parameter `ui` has a meaning of its own in the mode; else it names a mode."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables that stand for parameters which a command was not given, each after its parameter."""
    shows_clients: bool = False
    """Whether the choice depends on `Selection.client`."""
    shows_apps: Callable[[Selection], bool] = lambda _selection: False
    """Whether a connection has the pages that only some connections in the mode have."""


def names_in(parameters: Parameters, name: str) -> tuple[str, ...] | None:
    """The comma-separated names in all values of a parameter; None when it was not given."""
    values = parameters.get(name)
    if not values:
        return None
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())
