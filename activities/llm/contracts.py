"""Contracts of model calls: one step of a conversation in, the model's answer out."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from outlast.activities.bounds import Tokens
from outlast.activities.contracts import Caller, Contract
from outlast.activities.conversations.references import ConversationOwner, ConversationRef, Digest
from outlast.activities.llm.controls import ModelControls
from outlast.activities.spending.contracts import SpendingCaps


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
    """What a model has reasoned, in the form in which its provider wants it back in the next step.

    `block` is encrypted (OpenAI) or signed (Anthropic), and is sent back unchanged, to the same model only.
    """

    type: Literal["reasoning"] = "reasoning"
    provider_id: str
    model_id: str
    text: str = Field(default="", description="The reasoning or its summary, where the provider shows it.")
    block: dict[str, JsonValue] = Field(description="The provider's own object.")


class ToolResultPart(Contract):
    """The result of a tool call, as the model reads it."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    text: str
    media: tuple[MediaPart, ...] = Field(default=(), description="Shown to models that can see them, else described.")
    is_error: bool = False
    locator: str | None = None


Part = Annotated[TextPart | ImagePart | ReasoningPart | ToolCallPart | ToolResultPart, Field(discriminator="type")]
AnswerPart = Annotated[TextPart | ReasoningPart | ToolCallPart, Field(discriminator="type")]


class ModelMessage(Contract):
    """One message of a conversation. `tool` messages hold the results of the calls of the message before."""

    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]


class Usage(Contract):
    """Token counts of one model call; 0 where the provider reports none."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0


class TurnPiece(Contract):
    """How the messages of a call are kept: as a block of their turn, see `conversations.contracts.Block`."""

    continues: bool = False
    repeated: int = 0


class CallModelInput(Contract):
    """Input of `call_model`: one model call.

    The prompt begins with `definitions_json` and `system`, which are byte for byte the same in every step of a
    conversation, whatever the mask. `dynamic` and `messages` follow; `active_tools` is not part of the prompt.
    """

    caller: Caller
    provider_id: str
    model_id: str
    session_id: str
    turn_id: str
    step: int
    system: str = Field(description="Static text: the same in every step.")
    dynamic: str = Field(default="", description="Text that may change from turn to turn; after the static one.")
    definitions_json: str = Field(default="[]", description="Canonical JSON: `{name, description, input_schema}`.")
    prompt: Digest | None = Field(
        default=None, description="`system` and `definitions_json` as the store has them, in place of the two."
    )
    without_definitions: bool = Field(default=False, description="Whether the stored definitions are left out.")
    active_tools: tuple[str, ...] | None = Field(default=None, description="None: all; empty: none may be called.")
    conversation: ConversationRef = Field(
        default=ConversationRef(), description="What was said before `messages`; the activity reads it in the store."
    )
    messages: tuple[ModelMessage, ...]
    keep: TurnPiece | None = Field(
        default=None,
        description="Keep `messages` in the store while the model answers: the next call then refers to them.",
    )
    max_output_tokens: int = 4_096
    controls: ModelControls = ModelControls()
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Fields that request hooks have added.")
    window_tokens: int | None = Field(default=None, description="Of prompt and answer together; None: not known.")
    sees_pictures: bool | None = Field(default=None, description="Whether the model sees pictures; None: not known.")
    caps: SpendingCaps | None = Field(default=None, description="The caller's spending caps, if it has any.")
    text_if_none: str | None = Field(
        default=None,
        description="The answer's text if the model writes none. With it, calls in the answer are dropped.",
    )
    may_be_too_long: bool = Field(
        default=False, description="Whether a conversation that is too long is an answer (`too_long`), not a failure."
    )

    @property
    def owner(self) -> ConversationOwner:
        """Whose conversation it is."""
        return ConversationOwner(caller_id=self.caller.id, session_id=self.session_id)


class ModelStep(Contract):
    """The model's answer in one step."""

    parts: tuple[AnswerPart, ...] = Field(default=(), description="In the model's order, which reasoning depends on.")
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter", "other", "too_long", "cap"]
    usage: Usage = Usage()
    cost_usd: float | None = Field(default=None, description="None when the model's prices are not known.")
    warnings: tuple[str, ...] = Field(default=(), description="Fallbacks of the provider adapter, each once.")
    seconds: float = Field(default=0.0, description="From the request to the provider to the end of its answer.")
    conversation: ConversationRef | None = Field(
        default=None, description="The conversation with the messages of the call, when they were kept meanwhile."
    )

    @property
    def text(self) -> str:
        """The texts, put together."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls, in their order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


class TextDelta(Contract):
    """A piece of streamed text. A retried call streams again: readers drop the text of older attempts."""

    turn_id: str
    step: int
    attempt: int
    index: int = Field(description="Number of the piece within its attempt.")
    text: str


class ArgumentsDelta(Contract):
    """A piece of a tool call's arguments, while the model writes them. Readers drop those of older attempts."""

    turn_id: str
    step: int
    attempt: int
    index: int = Field(description="Number of the piece within its attempt, texts included.")
    call_id: str
    tool: str = Field(description="The name that the model knows.")
    text: str = Field(description="A piece of JSON; the pieces of one call, put together, are its arguments.")


Delta = TextDelta | ArgumentsDelta
