"""What pays at the kiosk: a signature of x402 as the text `kiosk/coin` in `_meta`, else in the header."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.workflows.tools.framework.frozen_json import FrozenObject
from outlast.workflows.tools.framework.selection import GivenCall, Payment, TakenPayment
from outlast.workflows.tools.framework.tool import Tool

COIN = "kiosk/coin"


@dataclass(frozen=True)
class Coins(Payment):
    name: str = "x402"
    names_payer: bool = True
    needs_terms: bool = True
    terms: Mapping[str, JsonValue] | None = None

    def with_terms(self, terms: JsonObject | None) -> Payment:
        return replace(self, terms=FrozenObject(terms) if terms is not None else None)

    def applied_to(self, definition: Tool) -> Tool:
        if not definition.calls_actor:
            return definition
        meta = json.dumps({**definition.meta, "kiosk/price": dict(self.terms or {})})
        return replace(definition, meta_json=meta, payment_scheme=self.name)

    def taken_from(self, call: GivenCall) -> TakenPayment:
        coin = call.meta.get(COIN) or call.signature
        if isinstance(coin, str):
            return TakenPayment(dict(call.arguments), SecretStr(coin))
        unpaid = ErrorEnvelope.permanent(ErrorCategory.PAYMENT, call.tool, "Insert a coin.")
        return TakenPayment(dict(call.arguments), unpaid=unpaid)


COINS = Coins()
