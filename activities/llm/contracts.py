"""Contracts of model calls: controls, the request of one step, and the model's answer."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from outlast.activities.bounds import AtMost, Tokens
from outlast.activities.contracts import Caller, Contract, Digest
from outlast.activities.conversations import contracts as conversations
from outlast.activities.spending.contracts import SpendingCaps

ControlName = Literal["temperature", "effort", "thinking_tokens", "output_schema", "stop", "seed"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ModelControls(Contract):
    """Controls of a model call. If one is not set, the provider's default applies. No provider supports all of them
    (see `providers.models.MATRIX`); an unsupported one is refused.
    """

    temperature: float | None = Field(default=None, ge=0, le=2, description="Randomness; 0 is the lowest.")
    effort: Effort | None = Field(default=None, description="How much the model reasons before it answers.")
    thinking_tokens: int | None = Field(
        default=None, ge=1_024, le=200_000, description="Maximum tokens for reasoning; they count as output."
    )
    output_schema: dict[str, JsonValue] | None = Field(
        default=None, description="JSON Schema of an object that the model's final text must be."
    )
    stop: tuple[str, ...] = Field(
        default=(), description="Texts at which the model stops; they are not part of its answer."
    )
    seed: Annotated[int, AtMost(2**63 - 1)] | None = Field(
        default=None, description="The same seed gives the same answer, if the provider supports it."
    )

    @property
    def names(self) -> tuple[ControlName, ...]:
        """The controls that are set."""
        given: dict[ControlName, object] = {
            "temperature": self.temperature,
            "effort": self.effort,
            "thinking_tokens": self.thinking_tokens,
            "output_schema": self.output_schema,
            "stop": self.stop or None,
            "seed": self.seed,
        }
        return tuple(name for name, value in given.items() if value is not None)

    def over(self, base: "ModelControls") -> "ModelControls":
        """These controls; where one is not set, that of `base`."""
        return base.model_copy(update={name: getattr(self, name) for name in self.names})


class ChatParams(Contract):
    """Input and result of a request hook (`CHAT_PARAMS_HOOKS` of a tools module) for each call of a model. It may
    change `controls`, `max_output_tokens` and `extra`. The other fields identify the call; changes of them have no
    effect, so that a hook cannot change what the model reads.
    """

    caller_id: str
    session_id: str
    turn_id: str
    step: int = Field(description="Number of the call in its turn; the first is 1.")
    provider_id: str
    model_id: str
    controls: ModelControls = ModelControls()
    max_output_tokens: int = Field(ge=1)
    extra: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Fields of the provider's request that Outlast does not set itself, such as `service_tier`.",
    )


ChatParamsHook = Callable[[ChatParams], ChatParams]


class Usage(Contract):
    """Token counts of one model call; 0 if the provider reports none."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0


class TurnPiece(Contract):
    """The place of a call's messages: a block of their turn, see `conversations.contracts.Block`."""

    continues: bool = False
    repeated: int = 0


class CallModelInput(Contract):
    """Input of `call_model`: one model call. The prompt begins with `definitions_json` and `system`, which are byte for
    byte the same in every step of a conversation, whatever the mask. `dynamic` and `messages` follow; `active_tools` is
    not part of the prompt.
    """

    caller: Caller
    provider_id: str
    model_id: str
    session_id: str
    turn_id: str
    step: int
    system: str = Field(description="Static text: the same in every step.")
    dynamic: str = Field(default="", description="Text that may change from turn to turn; follows the static text.")
    definitions_json: str = Field(default="[]", description="Canonical JSON: `{name, description, input_schema}`.")
    prompt: Digest | None = Field(
        default=None, description="`system` and `definitions_json` as the store has them, in place of the two."
    )
    without_definitions: bool = Field(default=False, description="Whether the stored definitions are left out.")
    active_tools: tuple[str, ...] | None = Field(default=None, description="None: all; empty: none may be called.")
    conversation: conversations.ConversationRef = Field(
        default=conversations.ConversationRef(),
        description="The messages before `messages`; the activity reads them in the store.",
    )
    messages: tuple[conversations.ModelMessage, ...]
    keep: TurnPiece | None = Field(
        default=None,
        description="Keep `messages` in the store while the model answers: the next call then refers to them.",
    )
    max_output_tokens: int = 4_096
    controls: ModelControls = ModelControls()
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Fields that request hooks have added.")
    window_tokens: int | None = Field(
        default=None, description="Tokens of prompt and answer together; None: not known."
    )
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
    def owner(self) -> conversations.ConversationOwner:
        """Whose conversation it is."""
        return conversations.ConversationOwner(caller_id=self.caller.id, session_id=self.session_id)


class ModelStep(Contract):
    """The model's answer in one step."""

    parts: tuple[conversations.AnswerPart, ...] = Field(
        default=(), description="Parts in the order in which the model wrote them."
    )
    finish_reason: Literal["stop", "tool_calls", "length", "content_filter", "other", "too_long", "cap"]
    usage: Usage = Usage()
    cost_usd: float | None = Field(default=None, description="None when the model's prices are not known.")
    warnings: tuple[str, ...] = Field(default=(), description="Fallbacks of the provider adapter, each once.")
    seconds: float = Field(default=0.0, description="Time from the request to the provider to the end of its answer.")
    conversation: conversations.ConversationRef | None = Field(
        default=None, description="The conversation with the messages of the call, if they were stored."
    )

    @property
    def text(self) -> str:
        """The texts, put together."""
        return "".join(part.text for part in self.parts if isinstance(part, conversations.TextPart))

    @property
    def tool_calls(self) -> tuple[conversations.ToolCallPart, ...]:
        """The calls, in their order."""
        return tuple(part for part in self.parts if isinstance(part, conversations.ToolCallPart))


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
    tool: str = Field(description="The name that the model used.")
    text: str = Field(description="A piece of JSON; the pieces of one call, put together, are its arguments.")


Delta = TextDelta | ArgumentsDelta
