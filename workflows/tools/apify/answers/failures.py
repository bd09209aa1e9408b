"""Failures in the texts that clients of Apify's server match on, and with the envelope for programs that read it."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.framework.ids import unquoted

_REFUSAL = re.compile(r"The platform answered \d+ \((?P<type>[\w-]+)\): (?P<message>.*)", re.DOTALL)
"""How the classifier tells a refusal of the platform (`activities/failures/classify.py`)."""

_THROWN = "Error calling tool "
_NOT_APPROVED = "full-permission-actor-not-approved"

Handler = Callable[[ToolContext, Any], Awaitable[ToolResult]]
Wording = Callable[[Any, ErrorEnvelope], str | None]
"""From the call's arguments and the failure to the text; None for the text of every other failure."""


def failing_as(wording: Wording, *, search: str | None = None) -> Callable[[Handler], Handler]:
    """Have a handler answer its failures in these words, as tool errors.

    `search` is a tool that finds what was not there: the text names it where the connection has it.
    """

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        async def handle(ctx: ToolContext, arguments: Any) -> ToolResult:
            try:
                return await handler(ctx, arguments)
            except ToolError as error:
                text = wording(arguments, error.envelope) or thrown(ctx.call.tool, error.envelope)
                if search is not None and is_missing(error.envelope) and ctx.offers(search):
                    text = f"{text} Look for it with {search}."
                return failed(error.envelope, text)

        return handle

    return decorate


def failed(envelope: ErrorEnvelope, *lines: str) -> ToolResult:
    """The tool error with these texts, one block each."""
    return ToolResult(content=tuple(TextContent(text=line) for line in lines), is_error=True, error=envelope)


def not_there(what: str) -> Wording:
    """`what` with the arguments filled in, when the platform has no such thing."""

    def wording(arguments: Any, envelope: ErrorEnvelope) -> str | None:
        named = {name: unquoted(value) for name, value in arguments.items()}
        return what.format(**named) if is_missing(envelope) else None

    return wording


def is_missing(envelope: ErrorEnvelope) -> bool:
    """Whether the platform has no such thing for this caller."""
    return envelope.category is ErrorCategory.NOT_FOUND


def refusal_type(envelope: ErrorEnvelope) -> str | None:
    """What the platform calls its refusal (Apify API v2, `error.type`); None where it did not refuse."""
    refusal = _REFUSAL.match(envelope.message)
    return refusal["type"] if refusal is not None else None


def awaits_approval(envelope: ErrorEnvelope) -> bool:
    """Whether a person has to approve the Actor first: the platform's message says where."""
    return refusal_type(envelope) == _NOT_APPROVED


def thrown(tool: str, envelope: ErrorEnvelope) -> str:
    """The text of a failure that has no specific one; with the platform's error type, where the platform refused.

    When a person has to pay or approve first, the text is the platform's message alone: without terms of payment, so
    that no client pays once more by itself for what may have been paid.
    """
    refusal = _REFUSAL.match(envelope.message)
    if refusal is not None:
        if envelope.category is ErrorCategory.PAYMENT or awaits_approval(envelope):
            return refusal["message"]
        return f'{_THROWN}"{tool}": {refusal["message"]} (API error type: {refusal["type"]}).'
    hint = f" {envelope.hint}" if envelope.hint else ""
    return f'{_THROWN}"{tool}": {envelope.message}{hint}'


def is_thrown(text: str) -> bool:
    """Whether the text of a tool error is that of `thrown`."""
    return text.startswith(_THROWN)


def platform_message(envelope: ErrorEnvelope) -> str:
    """The platform's message, without the text that was added to it."""
    refusal = _REFUSAL.match(envelope.message)
    return refusal["message"] if refusal is not None else envelope.message
