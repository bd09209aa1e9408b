"""Sessions and turns as the front doors show them, and what they are asked for with."""

import json
from datetime import datetime
from typing import Annotated

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, field_validator
from pydantic.alias_generators import to_camel

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.activities.llm.contracts import ImagePart, ModelMessage, TextPart, Usage
from outlast.activities.llm.controls import ModelControls
from outlast.workflows.contracts.tool_calls import OutputOptions
from outlast.workflows.contracts.turns import DEFAULT_MAX_STEPS, MAX_STEPS, Budgets, FinishReason, Spent, TurnStatus
from outlast.workflows.runtime.masks import TOOL_MASK_DESCRIPTION, ToolMask

_ID = r"^[\w.@-]+$"
_MAX_SCHEMA_CHARS = 32_000
MessagePart = Annotated[TextPart | ImagePart, Field(discriminator="type")]
MessageParts = tuple[MessagePart, ...]


def _form(message: object) -> str:
    """Which form a message has, so that a bad one is told what is wrong with this form, and not with the other."""
    return "parts" if isinstance(message, list | tuple) else "text"


MessageContent = Annotated[
    Annotated[str, Tag("text")] | Annotated[MessageParts, Tag("parts")],
    Discriminator(_form),
]


class _Request(BaseModel):
    """camelCase or snake_case, as the client likes."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class ControlsRequest(ModelControls):
    """Controls of the model's answer. One that the provider or the model does not have is refused by its name."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    stop: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=16, description="Texts at which the model stops; they are not part of its answer."
    )

    @field_validator("output_schema")
    @classmethod
    def _describes_an_object(cls, schema: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        """A valid JSON Schema of an object, not larger than models' providers take."""
        if schema is None:
            return None
        if schema.get("type") != "object":
            raise ValueError('must have `"type": "object"` at its top')
        if len(json.dumps(schema)) > _MAX_SCHEMA_CHARS:
            raise ValueError(f"is larger than {_MAX_SCHEMA_CHARS} characters")
        try:
            Draft202012Validator.check_schema(schema)  # pyright: ignore[reportUnknownMemberType]
        except SchemaError as error:
            raise ValueError(f"is not a JSON Schema: {error.message[:300]}") from error
        return schema


_CONTROLS = "Temperature, reasoning, structured output, stop texts, seed; see the provider's capabilities."


class SessionRequest(_Request):
    """A conversation to be begun."""

    session_id: str | None = Field(
        default=None, min_length=1, max_length=100, pattern=_ID, description="Made up when it is not given."
    )
    provider_id: str | None = Field(default=None, description="Provider of its turns, unless a message names another.")
    model_id: str | None = Field(default=None, description="Model of its turns, unless a message names another.")
    tools: tuple[str, ...] | None = Field(
        default=None,
        description="Categories, tools and Actors, as MCP connections choose them; without it the server's default.",
    )
    instructions: str = Field(
        default="", max_length=50_000, description="Text for the model; the same in every turn, after the server's own."
    )
    tool_mask: ToolMask = Field(default=None, description=TOOL_MASK_DESCRIPTION)
    max_steps: int = Field(default=DEFAULT_MAX_STEPS, ge=1, le=MAX_STEPS, description="Calls of the model per turn.")
    max_output_tokens: int | None = Field(
        default=None, ge=1, le=200_000, description="Of one call of the model; without it, as the model can."
    )
    controls: ControlsRequest = Field(default=ControlsRequest(), description=_CONTROLS)
    budgets: Budgets = Field(default=Budgets(), description="For all turns of the session together.")
    output: OutputOptions = Field(
        default=OutputOptions(), description="How outputs of its tools are kept, unless a message says otherwise."
    )


class MessageRequest(_Request):
    """A message of the user: it begins a turn."""

    message: MessageContent | None = Field(
        default=None,
        description="Text, or parts (`text`, `image`): more than blanks. May be left out when an assistant's message "
        "is retried.",
    )
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The client's own id: a message sent again with the same id meets the turn that it began.",
    )
    retry_of_assistant_message_id: str | None = Field(
        default=None, max_length=200, description="Answer the message before this one anew; what came after is left."
    )
    provider_id: str | None = None
    model_id: str | None = None
    stream: bool = Field(
        default=True, description="Answer with server-sent events; with false, with the turn when it has ended."
    )
    tool_mask: ToolMask = Field(default=None, description=TOOL_MASK_DESCRIPTION)
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS)
    budgets: Budgets = Field(default=Budgets(), description="For this turn.")
    output: OutputOptions | None = Field(default=None, description="How outputs of this turn's tools are kept.")
    dynamic: str = Field(
        default="",
        max_length=20_000,
        description="Text for the model that may change from turn to turn; before the conversation. A change costs the "
        "conversation's place in the provider's cache.",
    )
    max_output_tokens: int | None = Field(
        default=None, ge=1, le=200_000, description="Of one call of the model; without it, as the session says."
    )
    controls: ControlsRequest = Field(
        default=ControlsRequest(), description=f"{_CONTROLS} Each takes the place of the session's."
    )

    @field_validator("message")
    @classmethod
    def _says_something(cls, message: str | MessageParts | None) -> str | MessageParts | None:
        """No provider answers a message without words and pictures."""
        parts = (TextPart(text=message),) if isinstance(message, str) else message
        if parts is not None and not any(isinstance(part, ImagePart) or part.text.strip() for part in parts):
            raise ValueError("is blank: send a text or a picture, or leave it out to retry an assistant's message")
        return message


class TurnSummary(BaseModel):
    """A turn of a session, in short. Its id is the id of the assistant's message."""

    id: str
    message_id: str
    parent: str | None = Field(default=None, description="The turn whose conversation it goes on from.")
    retry_of: str | None = None
    began: datetime
    ended: bool


class Session(BaseModel):
    """A conversation."""

    id: str
    provider_id: str | None = None
    model_id: str | None = None
    tools: tuple[str, ...] = Field(default=(), description="By the names that the model knows.")
    max_steps: int = DEFAULT_MAX_STEPS
    max_output_tokens: int | None = Field(default=None, description="None: as the model of each turn can.")
    controls: ModelControls = ModelControls()
    budgets: Budgets = Budgets()
    spent: Spent = Spent()
    turns: tuple[TurnSummary, ...] = Field(default=(), description="The latest 200.")
    head: str | None = Field(default=None, description="The turn that the next message goes on from.")
    running: str | None = None


class Turn(BaseModel):
    """A turn: the user's message, and what the assistant has made of it."""

    id: str
    session_id: str
    message_id: str | None = None
    assistant_message_id: str = Field(description="What `retryOfAssistantMessageId` takes.")
    status: TurnStatus
    reason: FinishReason | None = None
    text: str | None = Field(default=None, description="The assistant's last words.")
    messages: tuple[ModelMessage, ...] = Field(default=(), description="All of this turn, the user's first.")
    steps: int = 0
    usage: Usage = Usage()
    cost_usd: float = 0.0
    error: ErrorEnvelope | None = None
