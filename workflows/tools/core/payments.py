"""Payment schemes: how a tool's definition asks for payment. Applied when a connection's tools are built."""

import json
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue

from outlast.workflows.tools.framework.tool import Tool

PAY_ID = "skyfire-pay-id"


@dataclass(frozen=True)
class PaymentScheme:
    """An input property that carries the payment, and the text about it in the tool's description."""

    name: str
    property_name: str
    property_description: str
    paragraph: str

    def applied_to(self, definition: Tool) -> Tool:
        """The definition with the property when the tool costs money; other tools unchanged."""
        if not definition.calls_actor:
            return definition
        schema = definition.input_schema
        properties = cast(dict[str, JsonValue], schema.get("properties") or {})
        schema["properties"] = {
            **properties,
            self.property_name: {"type": "string", "description": self.property_description},
        }
        return replace(
            definition,
            description=f"{definition.description}\n\n{self.paragraph}",
            input_schema_json=json.dumps(schema, ensure_ascii=False),
            payment_property=self.property_name,
        )


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
