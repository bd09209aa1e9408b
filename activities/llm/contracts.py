"""Contracts of model calls: one step of a conversation in, what the model said out. Free of I/O imports."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from outlast.activities.contracts import Caller, Contract


class TextPart(Contract):
    """A text of a message."""

    type: Literal["text"] = "text"
    text: str


class ImagePart(Contract):
    """A picture of a user's message: base64, or an address that the provider fetches. One of them, not both."""

    type: Literal["image"] = "image"
    media_type: str
    data: str | None = Field(default=None, min_length=1, description="Base64; then there is no `url`.")
    url: str | None = Field(default=None, min_length=1, description="Its address; then there is no `data`.")

    @model_validator(mode="after")
    def _comes_from_one_place(self) -> Self:
        if (self.data is None) == (self.url is None):
            raise ValueError("needs exactly one of data and url")
        return self


class ToolCallPart(Contract):
    """A model's wish to call a tool. `arguments` is None when what it wrote is no JSON object."""

    type: Literal["tool_call"] = "tool_call"
    id: str = Field(description="The provider's own id of the call.")
    name: str
    arguments: dict[str, JsonValue] | None = None
    raw_arguments: str = Field(description="As the model wrote them.")


class ToolResultPart(Contract):
    """What a tool call has come to, as the model reads it."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str
    text: str
    is_error: bool = False
    locator: str | None = None


Part = Annotated[TextPart | ImagePart | ToolCallPart | ToolResultPart, Field(discriminator="type")]


class ModelMessage(Contract):
    """One message of a conversation. `tool` messages hold the results of the calls of the message before."""

    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]


class Usage(Contract):
    """Tokens of one model call. Numbers always, never null."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class CallModelInput(Contract):
    """Order for one model call.

    What comes first stays byte for byte the same in every step of a conversation, whatever the mask:
    `definitions_json`, then `system`. Then `dynamic`, then `messages`; `active_tools` travels beside them.
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
    active_tools: tuple[str, ...] | None = Field(default=None, description="None: all; empty: none may be called.")
    messages: tuple[ModelMessage, ...]
    max_output_tokens: int = 4_096
    stream: bool = True


class ModelStep(Contract):
    """What the model said in one step."""

    text: str = ""
    tool_calls: tuple[ToolCallPart, ...] = ()
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter", "other"]
    usage: Usage = Usage()
    cost_usd: float | None = Field(default=None, description="Where the prices are known.")
    warnings: tuple[str, ...] = Field(default=(), description="Fallbacks of the provider adapter, once each.")
    seconds: float = Field(default=0.0, description="From the request to the provider to the end of its answer.")


class TextDelta(Contract):
    """A piece of streamed text. A retried call streams anew: readers drop what an older `attempt` said."""

    turn_id: str
    step: int
    attempt: int
    index: int = Field(description="Number of the piece within its attempt.")
    text: str
