"""The answer of a call that has to be paid first, as x402 has it over MCP."""

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.tools.apify.answers.blocks import compact

_NOTE = "The call has to be paid first. Nothing was started."


def demand_for_payment(envelope: ErrorEnvelope, terms: JsonObject) -> ToolResult:
    """The terms (PaymentRequired) as JSON and as the structured answer."""
    texts = tuple(TextContent(text=text) for text in (compact(terms), _NOTE))
    return ToolResult(content=texts, structured=terms, is_error=True, error=envelope)
