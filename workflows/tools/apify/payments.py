"""What pays for calls of this mode instead of an account: Skyfire, and x402. There is no wallet here: clients pay.

All requests of the call are made as the payer, so tools that read what a run has written are paid, too. A payment
belongs to one call, and is sealed in its workflow.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.tools.core.payments import PAY_ID
from outlast.workflows.tools.framework.frozen_json import FrozenObject, SchemaText
from outlast.workflows.tools.framework.selection import GivenCall, Payment, TakenPayment
from outlast.workflows.tools.framework.tool import Tool

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
"""Beside the tools of single Actors."""
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
    """Whether calls of the tool have to be paid."""
    return definition.calls_actor or definition.name in PAID_TOOLS


@dataclass(frozen=True)
class SkyfirePayment:
    """A PAY token among the arguments. The list has it as optional: a call without it gets an error that says so."""

    name: str = "skyfire"
    names_payer: bool = True
    needs_terms: bool = False

    def with_terms(self, terms: JsonObject | None) -> Payment:
        """The same: there are no terms."""
        del terms
        return self

    def can_pay(self, definition: Tool) -> bool:
        """All but tools of Actors that are MCP servers."""
        return definition.calls_actor or not definition.runs_actor

    def applied_to(self, definition: Tool) -> Tool:
        """A paid tool with the argument; others as they are."""
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
        """The token, and the arguments without it."""
        rest = dict(call.arguments)
        token = rest.pop(PAY_ID, None)
        if isinstance(token, str) and _IN_HEADER.fullmatch(token.strip()):
            return TakenPayment(rest, SecretStr(token.strip()))
        message = f'Missing required "{PAY_ID}" field. Make a PAY token with Skyfire\'s create-pay-token and pass it.'
        return TakenPayment(rest, unpaid=ErrorEnvelope.permanent(ErrorCategory.PAYMENT, call.tool, message))


@dataclass(frozen=True)
class X402Payment:
    """A signed payment in `_meta["x402/payment"]`, or in the HTTP header `PAYMENT-SIGNATURE`."""

    name: str = "x402"
    names_payer: bool = True
    needs_terms: bool = True
    terms: Mapping[str, JsonValue] | None = None
    """What the platform asks (PaymentRequired); None while it is not known."""

    def with_terms(self, terms: JsonObject | None) -> Payment:
        """The payment on these terms."""
        return replace(self, terms=FrozenObject(terms) if terms is not None else None)

    def can_pay(self, definition: Tool) -> bool:
        """All but tools of Actors that are MCP servers."""
        return definition.calls_actor or not definition.runs_actor

    def applied_to(self, definition: Tool) -> Tool:
        """A paid tool with the terms in its `_meta`, whose answer may also be a demand for payment."""
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
        """The signature as the platform takes it. `_meta` counts before the header."""
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
