"""`react_emoji` and `send_update`: messages of a model to its user while it works."""

import unicodedata

from pydantic import Field, field_validator

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.conversation import Sent
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, tool

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_+-'")
_KEYCAPS = frozenset("0123456789#*")
_NO_EMOJI = ("L", "Z", "Cc", "Cs", "Co")
"""Unicode categories that no emoji has: letters, separators, controls, surrogates, private characters."""


class ReactArguments(Arguments):
    """An emoji."""

    emoji: str = Field(
        min_length=1, max_length=64, description="An emoji by its short name (`thumbsup`) or as a character (👍)."
    )

    @field_validator("emoji")
    @classmethod
    def _an_emoji(cls, value: str) -> str:
        name = value.strip().strip(":")
        if name and set(name) <= _NAME_CHARS:
            return name
        if not name or name.isascii() or not all(_of_emoji(char) for char in name):
            raise ValueError("is no emoji: give one short name such as `thumbsup`, or one emoji character")
        return name


class UpdateArguments(Arguments):
    """A message."""

    message: str = Field(min_length=1, max_length=4_000, description="What the user should know now, in plain words.")

    @field_validator("message")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("says nothing")
        return value.strip()


async def react_emoji(ctx: HandlerContext, arguments: ReactArguments) -> ToolResult:
    """Add a reaction to the user's message."""
    return _sent_result(f"Reacted with {arguments.emoji}.", await ctx.user_messages.post("reaction", arguments.emoji))


async def send_update(ctx: HandlerContext, arguments: UpdateArguments) -> ToolResult:
    """Post a message before the answer."""
    return _sent_result("The update was sent.", await ctx.user_messages.post("update", arguments.message))


def _sent_result(done: str, sent: Sent) -> ToolResult:
    where = [name for name, reached in (("session", sent.session), ("webhook", sent.webhook)) if reached]
    missed = f" The webhook did not take it: {sent.refused.message}" if sent.refused else ""
    return ToolResult(content=(TextContent(text=done + missed),), meta={"outlast/sentTo": list(where)})


def _of_emoji(char: str) -> bool:
    return char in _KEYCAPS or (not char.isascii() and not unicodedata.category(char).startswith(_NO_EMOJI))


REACT_EMOJI = (
    tool("react_emoji")
    .category(Category.EXPERIMENTAL)
    .describe("Add an emoji reaction to the message that you are answering, to acknowledge it before the answer.")
    .annotate(ToolAnnotations(title="React with an emoji", open_world=True))
    .args(ReactArguments)
    .server(react_emoji)
    .build()
)

SEND_UPDATE = (
    tool("send_update")
    .category(Category.EXPERIMENTAL)
    .describe(
        "Post a short progress message to the user while you continue to work. Do not use it for the answer itself, "
        "which the user sees anyway."
    )
    .annotate(ToolAnnotations(title="Send an update", open_world=True))
    .args(UpdateArguments)
    .server(send_update)
    .build()
)
