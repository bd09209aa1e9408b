"""Payment schemes: how a tool's definition requires payment. Applied when a connection's tools are built."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue, SecretStr

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.framework.frozen_json import SchemaText
from outlast.workflows.tools.framework.selection import GivenCall, Payment, TakenPayment
from outlast.workflows.tools.framework.tool import Tool

PAY_ID = "skyfire-pay-id"
INPUT_CALLERS = frozenset({"call-actor", "call-actor-task", "call-actor-widget"})
"""Tools that run any Actor, whose input is their argument `input`."""


@dataclass(frozen=True, kw_only=True)
class PaymentScheme(Payment):
    """An input property that carries the payment, and the text about it in the tool's description."""

    property_name: str
    property_description: str
    paragraph: str

    def taken_from(self, call: GivenCall) -> TakenPayment:
        """Separate the payment from the arguments. Raises `ToolError` if it is missing."""
        rest = dict(call.arguments)
        payment = rest.pop(self.property_name, None)
        if not isinstance(payment, str) or not payment.strip():
            raise ToolError(self._unpaid(call.tool))
        return TakenPayment(rest, SecretStr(payment.strip()))

    def _unpaid(self, tool: str) -> ErrorEnvelope:
        return ErrorEnvelope.permanent(
            ErrorCategory.PAYMENT,
            tool,
            f"{tool} is paid with `{self.property_name}`, and the call has none. Nothing was started.",
            hint=f"Call again with `{self.property_name}`: {self.property_description}",
            violations=(Violation(path=f"/{self.property_name}", message="Required: a string that is not empty."),),
        )

    def applied_to(self, definition: Tool) -> Tool:
        """Add the property to the definition of a tool that costs money."""
        if not definition.calls_actor:
            return definition
        return replace(
            definition,
            description=f"{definition.description}\n\n{self.paragraph}",
            input_text=SchemaText(lambda: self._with_property(definition.input_schema)),
            payment_scheme=self.name,
        )

    def _with_property(self, schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
        properties = cast(dict[str, JsonValue], schema.get("properties") or {})
        schema["properties"] = {
            **properties,
            self.property_name: {"type": "string", "minLength": 1, "description": self.property_description},
        }
        required = cast(list[JsonValue], schema.get("required") or [])
        schema["required"] = [*required, self.property_name]
        return schema


SKYFIRE = PaymentScheme(
    name="skyfire",
    property_name=PAY_ID,
    property_description="Skyfire PAY token id that pays for this call, made with Skyfire's create-pay-token.",
    paragraph=(
        "This tool is paid through Skyfire: create a PAY token with Skyfire's `create-pay-token` tool and pass it as "
        f"`{PAY_ID}`. Unspent money stays with the token."
    ),
)

SCHEMES = {SKYFIRE.name: SKYFIRE}


def unpayable(tool: str, actor: str) -> ErrorEnvelope:
    """Return the error for a tool of an Actor that is an MCP server, which its account would pay."""
    return ErrorEnvelope.permanent(
        ErrorCategory.PAYMENT,
        tool,
        f"{actor} is a tool of an MCP server, which this payment cannot pay. Nothing was started.",
        hint="Call an Actor, or use a connection whose account pays.",
    )


def standby_unpayable(tool: str, actor: str) -> ErrorEnvelope:
    """Return the error for an Actor in standby mode, which serves an account and not a single call."""
    return ErrorEnvelope.permanent(
        ErrorCategory.PAYMENT,
        tool,
        f'Actor "{actor}" is a standby Actor, and payments that come with calls do not pay for those. Nothing was '
        "started.",
        hint="Use a connection without `payment`, whose account pays.",
    )


def misplaced_payment(
    tool: str, input_schema: Mapping[str, JsonValue], arguments: Mapping[str, JsonValue]
) -> ErrorEnvelope | None:
    """Return the error for a payment among the arguments of a tool that takes none; None without a payment.

    In an Actor's input it would pay for nothing, and the Actor would see it. An Actor with a field of that name is
    called by its own tool, whose schema has the field.
    """
    own = cast(dict[str, JsonValue], input_schema.get("properties") or {})
    run_input = arguments.get("input") if tool in INPUT_CALLERS else None
    for scheme in SCHEMES.values():
        name, where = scheme.property_name, ""
        if name in arguments and name not in own:
            where = "here"
        elif isinstance(run_input, dict) and name in run_input:
            where = "within `input`"
        if where:
            return ErrorEnvelope.permanent(
                ErrorCategory.PAYMENT,
                tool,
                f"{tool} takes no `{name}` {where}. Nothing was started.",
                hint=f"To pay per call, connect over MCP with ?payment={scheme.name}, and pass it as an argument of "
                "the tool itself; else leave it out.",
            )
    return None
