"""Selection of tools by connections of this mode, with the selectors of Apify's own server (0.16), and payments.

Clients can pay calls by Skyfire or x402 instead of an account. All requests of a call are made as the payer, so tools
that read the output of a run are paid too. A payment belongs to one call, and is encrypted in its workflow."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.workflows.tools.apify.answers import compact
from outlast.workflows.tools.core.payments import PAY_ID
from outlast.workflows.tools.framework.frozen_json import FrozenObject, SchemaText
from outlast.workflows.tools.framework.selection import (
    Choice,
    GivenCall,
    LoadedChoice,
    Parameters,
    Payment,
    Selection,
    SelectionRules,
    TakenPayment,
    names_in,
)
from outlast.workflows.tools.framework.tool import Category, Tool

CATEGORIES = (
    Category.ACTORS,
    Category.DOCS,
    Category.RUNS,
    Category.STORAGE,
    Category.TASKS,
    Category.SCHEDULES,
    Category.DEV,
)
DEFAULT_CATEGORIES = (Category.ACTORS, Category.DOCS)
DEFAULT_ACTORS = ("apify/rag-web-browser", "apify/web-fetch")
RETIRED = frozenset({"add-actor", "experimental", "preview", "get-actor-log"})
"""Former names of tools and categories: they select nothing, and are not Actors."""
COMPANIONS = ("get-actor-run", "get-dataset-items", "get-key-value-store-record", "abort-actor-run")
"""Offered beside tools that start or follow a run, in this order."""
REPORT = "report-problem"
MAX_SCHEMA_BYTES = 262_144
"""Limit for the schema of an Actor's tool, as JSON. An Actor with a larger one is run with `call-actor`."""
_CALL, _FOLLOW = "call-actor", "get-actor-run"
_CALL_WIDGET, _FOLLOW_WIDGET = "call-actor-widget", "get-actor-run-widget"
_BROUGHT = {"search-actors": "search-actors-widget", "fetch-actor-details": "fetch-actor-details-widget"}
"""Tools that come with their widgets if the client shows widgets. Other widgets have to be named."""
_APPS = frozenset({"apps", "true", "on", "openai"})
_NO_APPS = frozenset({"default", "false", "off"})
_WITHOUT_REPORT = ("claude", "anthropic", "local-agent-mode-apify")
"""Parts of the names of clients that get `report-problem` only if they select it."""
_FALSE = frozenset({"false", "0", "no", "off"})
_TOOL_OF_WIDGETS = re.compile(r"[a-z-]+-widget")


def read(mode: str, parameters: Parameters) -> Selection:
    """Read the selection of a connection. Unknown parameters are ignored, as in that server."""
    tools, actors = names_in(parameters, "tools"), names_in(parameters, "actors")
    chosen = None if tools is None and actors is None else (*(tools or ()), *(actors or ()))
    payment = _first(parameters, "payment")
    return Selection(
        mode=mode,
        selectors=chosen,
        payment=SCHEMES.get(payment),
        options=(
            ("ui", ui_of(_first(parameters, "ui"))),
            ("telemetry", "off" if _first(parameters, "telemetry-enabled").strip().lower() in _FALSE else "on"),
        ),
    )


def ui_of(value: str) -> str:
    """Return `apps`, `default`, or `auto` (what the client can show) for the spellings of that server."""
    return "apps" if value in _APPS else "default" if value in _NO_APPS else "auto"


def shows_apps(selection: Selection) -> bool:
    """Return whether the connection has widgets, by its parameter or by its client's support."""
    ui = selection.option("ui")
    return ui == "apps" or (ui == "auto" and selection.client.shows_apps)


def choose(selection: Selection, available: Mapping[str, Tool]) -> Choice:
    """Choose the tools and Actors that the selectors name, in their order."""
    if selection.selectors is None:
        names: Iterable[str] = (*DEFAULT_CATEGORIES, REPORT)
        actors = [*DEFAULT_ACTORS]
    else:
        names, actors = selection.selectors, []
    tools: list[Tool] = []
    for name in names:
        if name in CATEGORIES:
            tools += [each for each in available.values() if each.category == name]
        elif _TOOL_OF_WIDGETS.fullmatch(name):
            tools += [available[name]] if name in available and shows_apps(selection) else []
        elif name in available:
            tools.append(available[name])
        elif name not in RETIRED:
            actors.append(name.strip("\"'` "))
    if not _may_report(selection):
        tools = [each for each in tools if each.name != REPORT]
    every_actor = dict.fromkeys(name for name in (*actors, *selection.added_actors) if name)
    return Choice(tuple(dict.fromkeys(tools)), tuple(every_actor))


def arrange(selection: Selection, loaded: LoadedChoice) -> list[Tool]:
    """Put the tools in the order of that server, with the companions of tools that run Actors."""
    loadable = [each for each in loaded.actor_tools if _has_usable_schema(each)]
    direct = [each for each in loadable if each.calls_actor]
    of_actors = [*direct, *(each for each in loadable if not each.calls_actor)]
    tools = _with_companions([*loaded.tools, *of_actors], loaded.available, runs_actors=bool(direct))
    widgets = _brought_by(tools, loaded.available) if shows_apps(selection) else []
    if selection.client.is_modern:
        return [*tools, *widgets]
    if selection.option("ui") == "auto":
        return [*of_actors, *(each for each in tools if each not in of_actors), *widgets]
    last = [each for each in tools if each.name == REPORT]
    return [*(each for each in tools if each not in last), *widgets, *last]


def _has_usable_schema(definition: Tool) -> bool:
    """Return whether the tool of an Actor is small enough to be offered, as that server measures it."""
    with_spaces = len(definition.input_schema_json.encode())
    return with_spaces <= MAX_SCHEMA_BYTES or len(compact(definition.input_schema).encode()) <= MAX_SCHEMA_BYTES


def _brought_by(tools: list[Tool], available: Mapping[str, Tool]) -> list[Tool]:
    """Return the widgets that come with tools and were not chosen themselves."""
    names = {each.name for each in tools}
    return [available[widget] for base, widget in _BROUGHT.items() if base in names and widget not in names]


def _with_companions(tools: list[Tool], available: Mapping[str, Tool], *, runs_actors: bool) -> list[Tool]:
    """Insert the companions after `call-actor`, or at the end; those that were chosen before that stay."""
    names = [each.name for each in tools]
    follows = runs_actors or _CALL in names or _FOLLOW in names
    if not follows and _CALL_WIDGET not in names and _FOLLOW_WIDGET not in names:
        return tools
    # A connection that follows runs in a widget needs no other tool for it, unless another tool starts runs.
    companions = COMPANIONS if follows or _FOLLOW_WIDGET not in names else COMPANIONS[1:]
    at = names.index(_CALL) + 1 if _CALL in names else len(tools)
    before = tools[:at]
    added = [available[name] for name in companions if name in available and available[name] not in before]
    return [*before, *added, *(each for each in tools[at:] if each not in added)]


def _may_report(selection: Selection) -> bool:
    """Return whether reports are offered: with telemetry on, and by default not to clients with their own reports."""
    if selection.option("telemetry") == "off":
        return False
    name = selection.client.name.lower()
    return selection.selectors is not None or not any(part in name for part in _WITHOUT_REPORT)


def _first(parameters: Parameters, name: str) -> str:
    """Return the first value of a parameter that is not a list, even if it was given more than once."""
    return (parameters.get(name) or [""])[0]


PAID_TOOLS = frozenset(
    {
        "call-actor",
        "get-actor-run",
        "get-actor-run-widget",
        "get-actor-run-log",
        "abort-actor-run",
        "get-dataset",
        "get-dataset-items",
        "get-dataset-schema",
        "get-key-value-store",
        "get-key-value-store-keys",
        "get-key-value-store-record",
    }
)
"""Paid tools, beside those of single Actors."""
PAYMENT_META = "x402/payment"
"""Key in a call's `_meta`: an x402 PaymentPayload."""
_PREFERRED = ("exact", "upto")
"""Preferred schemes. The terms of the first one also precede the list, for clients that do not read the list."""
_IN_HEADER = re.compile(r"[\x21-\x7e]{1,16384}")
_REQUIRED_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "x402Version": {"type": "number"},
        "error": {"type": "string"},
        "resource": {"type": "object"},
        "accepts": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["x402Version", "accepts"],
}


def is_paid(definition: Tool) -> bool:
    """Return whether calls of the tool have to be paid."""
    return definition.calls_actor or definition.name in PAID_TOOLS


@dataclass(frozen=True)
class SkyfirePayment(Payment):
    """A PAY token among the arguments. The schema has it as optional: a call without it gets an error about it."""

    name: str = "skyfire"
    names_payer: bool = True

    def applied_to(self, definition: Tool) -> Tool:
        """Add the argument to a paid tool."""
        if not is_paid(definition):
            return definition
        schema = definition.input_schema
        given = cast(dict[str, JsonValue], schema.get("properties") or {})
        about = "Skyfire PAY token that pays for the call: the token itself, which begins with `ey`, and no id."
        schema["properties"] = {**given, PAY_ID: {"type": "string", "description": about}}
        return replace(
            definition,
            description=(
                f"{definition.description}\n\nPaid through Skyfire: make a PAY token with Skyfire's `create-pay-token` "
                f"and pass it as `{PAY_ID}`; reading what a run has written takes the same token."
            ),
            input_text=SchemaText.of(schema),
            payment_scheme=self.name,
        )

    def taken_from(self, call: GivenCall) -> TakenPayment:
        """Separate the token from the arguments."""
        rest = dict(call.arguments)
        token = rest.pop(PAY_ID, None)
        if isinstance(token, str) and _IN_HEADER.fullmatch(token.strip()):
            return TakenPayment(rest, SecretStr(token.strip()))
        message = f'Missing required "{PAY_ID}" field. Make a PAY token with Skyfire\'s create-pay-token and pass it.'
        return TakenPayment(rest, unpaid=ErrorEnvelope.permanent(ErrorCategory.PAYMENT, call.tool, message))


@dataclass(frozen=True)
class X402Payment(Payment):
    """A signed payment in `_meta["x402/payment"]`, or in the HTTP header `PAYMENT-SIGNATURE`."""

    name: str = "x402"
    names_payer: bool = True
    needs_terms: bool = True
    terms: Mapping[str, JsonValue] | None = None
    """The platform's terms (PaymentRequired); None while they are unknown."""

    def with_terms(self, terms: JsonObject | None) -> Payment:
        """Return the payment on these terms."""
        return replace(self, terms=FrozenObject(terms) if terms is not None else None)

    def applied_to(self, definition: Tool) -> Tool:
        """Add the terms to the `_meta` of a paid tool, whose answer may also be a demand for payment."""
        if not is_paid(definition):
            return definition
        output = definition.output_schema
        widened = SchemaText.of({"type": "object", "anyOf": [output, _REQUIRED_FORM]}) if output is not None else None
        return replace(
            definition,
            description=(
                f"{definition.description}\n\nPaid with x402: the call carries a signed payment in "
                f'`_meta["{PAYMENT_META}"]`, which takes a client that knows x402.'
            ),
            meta_json=json.dumps({**definition.meta, "x402": self._advertised()}),
            output_text=widened,
            payment_scheme=self.name,
        )

    def taken_from(self, call: GivenCall) -> TakenPayment:
        """Return the signature in the platform's form. `_meta` takes precedence over the header."""
        rest, payload = dict(call.arguments), call.meta.get(PAYMENT_META)
        if isinstance(payload, Mapping) and payload:
            text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
            signature = base64.b64encode(text.encode()).decode()
        else:
            signature = (call.signature or "").strip()
        if _IN_HEADER.fullmatch(signature):
            return TakenPayment(rest, SecretStr(signature))
        message = f'This tool requires an x402 payment. Sign one, and send it in `_meta["{PAYMENT_META}"]`.'
        unpaid = ErrorEnvelope.permanent(ErrorCategory.PAYMENT, call.tool, message)
        return TakenPayment(rest, unpaid=unpaid, terms=dict(self.terms) if self.terms is not None else None)

    def _advertised(self) -> JsonObject:
        accepts = self.terms.get("accepts") if self.terms is not None else None
        offers = [entry for entry in accepts if isinstance(entry, Mapping)] if isinstance(accepts, list | tuple) else []
        if not offers:
            return {"paymentRequired": True}
        chosen = next((each for name in _PREFERRED for each in offers if each.get("scheme") == name), offers[0])
        return {"paymentRequired": True, **chosen, "accepts": [dict(each) for each in offers]}


SCHEMES: Mapping[str, Payment] = {each.name: each for each in (SkyfirePayment(), X402Payment())}
_ENVIRONMENT = (("tools", "TOOLS"), ("actors", "ACTORS"), ("ui", "UI_MODE"), ("telemetry-enabled", "TELEMETRY_ENABLED"))
RULES = SelectionRules(
    read=read,
    choose=choose,
    arrange=arrange,
    reads_ui=True,
    environment=_ENVIRONMENT,
    shows_clients=True,
    shows_apps=shows_apps,
)
