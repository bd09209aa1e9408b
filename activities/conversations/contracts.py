"""Contracts of conversations: messages, blocks, and references to them. A conversation is a chain of blocks; a block
has the messages of one step of a turn, names the blocks before it and never changes. Histories contain references only,
so a step writes only new messages, and a fork shares its beginning.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from outlast.activities.contracts import Contract, Digest

SESSION_WORKFLOW_PREFIX = "session:"

_PAGE_TOKEN = re.compile(r"([0-9a-f]{64})\.(\d{1,9})", re.ASCII)


def caller_part(caller_id: str) -> str:
    """A caller's id as part of a workflow's, with no colon but that of its kind. The subject of an access token may
    have colons, and so may a session's id: without this, session `c` of `jwt:a:b` would be session `b:c` of `jwt:a`.
    """
    kind, colon, name = caller_id.partition(":")
    return f"{kind}{colon}{name.replace('%', '%25').replace(':', '%3A')}"


class ConversationOwner(Contract):
    """Whose conversation it is. A reference opens for its owner only."""

    caller_id: str
    session_id: str

    @property
    def workflow_id(self) -> str:
        """ID of the session's workflow. The same session id of two callers gives two workflows."""
        return f"{SESSION_WORKFLOW_PREFIX}{caller_part(self.caller_id)}:{self.session_id}"


class ConversationRef(Contract):
    """A conversation up to one of its blocks. Without `head` it is empty."""

    head: Digest | None = Field(default=None, description="SHA-256 of the last block.")
    messages: int = Field(default=0, ge=0, description="Number of its messages that a model receives.")
    size_bytes: int = Field(default=0, ge=0, description="Size of their JSON.")


def message_page_token(conversation: ConversationRef, skipped: int = 0) -> str | None:
    """Return the page token for a conversation's messages before its `skipped` latest ones; None for an empty one."""
    return f"{conversation.head}.{skipped}" if conversation.head else None


def read_message_page_token(token: str) -> tuple[ConversationRef, int] | None:
    """Return the conversation and the number of skipped messages of a token; None for a malformed one."""
    match = _PAGE_TOKEN.fullmatch(token)
    return (ConversationRef(head=match[1]), int(match[2])) if match else None


MAX_BEFORE = 8
"""The number of earlier blocks that a block names. They are read at once; the first of them names the next ones."""


class TextPart(Contract):
    """A text of a message."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Contract):
    """An image of a user's message: either base64 data, or a URL that the provider fetches."""

    type: Literal["image"] = "image"
    media_type: str
    data: str | None = Field(default=None, min_length=1, description="Base64; excludes `url`.")
    url: str | None = Field(default=None, min_length=1, description="Its URL; excludes `data`.")

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> Self:
        if (self.data is None) == (self.url is None):
            raise ValueError("needs exactly one of data and url")
        return self


class ToolCallPart(Contract):
    """A tool call of a model. `arguments` is None when the model did not write a JSON object."""

    type: Literal["tool_call"] = "tool_call"
    id: str = Field(description="The provider's own id of the call.")
    name: str
    arguments: dict[str, JsonValue] | None = None
    raw_arguments: str = Field(description="As the model wrote them.")


class MediaPart(Contract):
    """A picture, a sound or a file of a tool's answer, base64."""

    type: Literal["media"] = "media"
    media_type: str
    data: str
    name: str


class ReasoningPart(Contract):
    """The reasoning of a model, in the form that its provider expects in the next step. `block` is encrypted
    (OpenAI) or signed (Anthropic), and is sent back unchanged, to the same model only.
    """

    type: Literal["reasoning"] = "reasoning"
    provider_id: str
    model_id: str
    text: str = Field(default="", description="The reasoning or its summary, if the provider shows it.")
    block: dict[str, JsonValue] = Field(description="The provider's own object.")


class ToolResultPart(Contract):
    """The result of a tool call, as the model reads it."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    text: str
    media: tuple[MediaPart, ...] = Field(
        default=(), description="Shown to models that accept images, otherwise described."
    )
    is_error: bool = False
    locator: str | None = None


Part = Annotated[TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolResultPart, Field(discriminator="type")]
AnswerPart = Annotated[TextPart | ReasoningPart | ToolCallPart, Field(discriminator="type")]


class ModelMessage(Contract):
    """One message of a conversation. `tool` messages hold the results of the calls of the message before."""

    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]


class PromptHead(Contract):
    """The beginning of all prompts of a session, which never changes in it."""

    system: str = Field(default="", description="Static text.")
    definitions_json: str = Field(default="[]", description="The tools, see `CallModelInput`.")


class Block(Contract):
    """Messages that were added to a conversation together, or the beginning of a session's prompts."""

    before: tuple[Digest, ...] = Field(
        default=(), max_length=MAX_BEFORE, description="Earlier blocks, the nearest last."
    )
    messages: tuple[ModelMessage, ...]
    about: dict[str, JsonValue] = Field(default_factory=dict, description="Outcome of the turn that wrote it.")
    summary_of: ConversationRef | None = Field(
        default=None,
        description="The conversation that `messages` summarise. Models receive the summary; people can read this one.",
    )
    locators: tuple[str, ...] = Field(
        default=(), description="With `summary_of`: locators of the stored outputs that the summarised messages name."
    )
    continues: bool = Field(default=False, description="Whether the block before has the beginning of the same turn.")
    repeated: int = Field(
        default=0,
        ge=0,
        description="Number of leading messages of the same turn that the block before also has, summarised.",
    )

    prompt: PromptHead | None = Field(
        default=None, description="Set in a block without messages, outside the conversation."
    )


class KeepMessagesInput(Contract):
    """Input of `keep_messages`: adds a block to a conversation."""

    owner: ConversationOwner
    conversation: ConversationRef
    messages: tuple[ModelMessage, ...]
    about: dict[str, JsonValue] = Field(default_factory=dict)
    continues: bool = False
    repeated: int = 0


class ForgetSessionInput(Contract):
    """Input of `forget_session`: deletes a session for its owner."""

    owner: ConversationOwner
    workflows: tuple[str, ...] = Field(default=(), description="Turns and tasks that the session has recorded.")
    query: str = Field(description="Temporal's list filter for all workflows of the session.")


class ForgottenSession(Contract):
    """Result of a deletion."""

    outputs: int
    histories: int
