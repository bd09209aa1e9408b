"""Sessions and turns as the front doors show them, and what they are asked for with."""

import json
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import (
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.activities.json_schema.engine import flaw
from outlast.activities.llm.contracts import ImagePart, ModelMessage, Part, TextPart, Usage
from outlast.activities.llm.controls import ModelControls
from outlast.activities.outputs.contracts import OutputKind
from outlast.activities.outputs.format.locators import MAX_LOCATOR_CHARS
from outlast.workflows.contracts.tool_calls import OutputOptions
from outlast.workflows.contracts.turns import DEFAULT_MAX_STEPS, MAX_STEPS, Budgets, FinishReason, Spent, TurnStatus
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.runtime.masks import TOOL_MASK_DESCRIPTION, ToolMask

MAX_TITLE = 200
MAX_IMPORTED_TURNS = 10_000
_ID = r"^[\w.@-]+$"
_MAX_SCHEMA_CHARS = 32_000
_MAX_NAME_CHARS = 200
_MAX_TOOLS = 1_000
MessagePart = Annotated[TextPart | ImagePart, Field(discriminator="type")]
MessageParts = tuple[MessagePart, ...]


def _form(message: object) -> str:
    """Which form a message has, so that an error is about that form, and not about the other."""
    return "parts" if isinstance(message, list | tuple) else "text"


MessageContent = Annotated[
    Annotated[str, Tag("text")] | Annotated[MessageParts, Tag("parts")],
    Discriminator(_form),
]


class _Request(KnownFieldsOnly):
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
        text = json.dumps(schema)
        if len(text) > _MAX_SCHEMA_CHARS:
            raise ValueError(f"is larger than {_MAX_SCHEMA_CHARS} characters")
        if (found := flaw(text)) is not None:
            raise ValueError(f"is not a JSON Schema: {found}")
        return schema


_CONTROLS = "Temperature, reasoning, structured output, stop texts, seed; see the provider's capabilities."


class SessionRequest(_Request):
    """A conversation to be begun."""

    session_id: str | None = Field(
        default=None, min_length=1, max_length=100, pattern=_ID, description="Made up when it is not given."
    )
    provider_id: str | None = Field(
        default=None, max_length=_MAX_NAME_CHARS, description="Provider of its turns, unless a message names another."
    )
    model_id: str | None = Field(
        default=None, max_length=_MAX_NAME_CHARS, description="Model of its turns, unless a message names another."
    )
    tools: tuple[Annotated[str, Field(max_length=_MAX_NAME_CHARS)], ...] | None = Field(
        default=None,
        max_length=_MAX_TOOLS,
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
    title: str | None = Field(
        default=None, min_length=1, max_length=MAX_TITLE, description="Without it, how the first message begins."
    )
    update: bool = Field(
        default=False, description="Whether a session with this id takes these settings, if it has others."
    )

    @property
    def settings(self) -> dict[str, JsonValue]:
        """What was asked for, but for names: the same for the same settings."""
        return self.model_dump(mode="json", exclude={"session_id", "title", "update"}, exclude_defaults=True)


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
        default=None, max_length=200, description="Answer the message before this one again; later ones are dropped."
    )
    provider_id: str | None = Field(default=None, max_length=_MAX_NAME_CHARS)
    model_id: str | None = Field(default=None, max_length=_MAX_NAME_CHARS)
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
    title: str | None = None
    began: datetime | None = None
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


class SessionTitle(_Request):
    """A new title of a session."""

    title: str = Field(min_length=1, max_length=MAX_TITLE)


class SessionEntry(BaseModel):
    """A session in a list."""

    id: str
    title: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    began: datetime | None = None
    updated: datetime | None = Field(default=None, description="When its last turn ended or its settings changed.")
    turns: int = 0


class SessionPage(BaseModel):
    """Sessions, those first that began last."""

    sessions: list[SessionEntry]
    next_page_token: str | None = Field(
        default=None, description="Pass as page_token for the next page; absent on the last."
    )


class SessionMessage(BaseModel):
    """One message of a conversation. `tool` messages hold the results of the calls of the message before."""

    turn_id: str | None = None
    role: Literal["user", "assistant", "tool"]
    parts: tuple[Part, ...]


class MessagePage(BaseModel):
    """Messages in the order in which they were said. The first page has the latest, later pages older ones."""

    messages: list[SessionMessage]
    next_page_token: str | None = Field(
        default=None, description="Pass as page_token for the messages before these; absent when there are none."
    )


class ExportedTurn(BaseModel):
    """A turn of an exported conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=100, pattern=_ID)
    message_id: str = Field(min_length=1, max_length=200)
    status: TurnStatus = TurnStatus.COMPLETED
    reason: FinishReason = "stop"
    text: str = ""
    spent: Spent = Field(default=Spent(), description="For the reader. An imported turn has spent nothing here.")
    messages: tuple[ModelMessage, ...] = Field(min_length=1, description="The user's first.")

    @field_validator("messages")
    @classmethod
    def _begins_with_the_user(cls, messages: tuple[ModelMessage, ...]) -> tuple[ModelMessage, ...]:
        if messages[0].role != "user":
            raise ValueError(f"must begin with the user's message, not with one of the role `{messages[0].role}`")
        return messages

    @field_validator("status")
    @classmethod
    def _has_ended(cls, status: TurnStatus) -> TurnStatus:
        if status is TurnStatus.RUNNING:
            raise ValueError("is `running`: only turns that have ended can be imported")
        return status


class ExportedOutput(BaseModel):
    """A stored output that an exported conversation refers to: its content as text, or in base64."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    locator: str = Field(max_length=MAX_LOCATOR_CHARS)
    tool_call_id: str = Field(min_length=1, max_length=200)
    kind: OutputKind
    content_type: str = Field(min_length=1, max_length=200)
    text: str | None = Field(default=None, description="Rows as lines of JSON, one JSON value, or text.")
    base64: Base64Bytes | None = Field(default=None, description="Bytes.")

    @model_validator(mode="after")
    def _has_what_its_kind_says(self) -> Self:
        """The content is there once, and is what `kind` says."""
        if (self.text is None) == (self.base64 is None) or (self.base64 is not None) != (self.kind == "binary"):
            raise ValueError("has its content in `base64` when its kind is `binary`, else in `text`")
        try:
            if self.kind == "rows" and self.text:
                for row in self.text.removesuffix("\n").split("\n"):
                    from_json(row)
            if self.kind == "json":
                from_json(self.text or "")
        except ValueError as error:
            raise ValueError(f"is not of the kind `{self.kind}`: {error}") from error
        return self


class OutputLeftOut(BaseModel):
    """A stored output that an export does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    locator: str = Field(max_length=MAX_LOCATOR_CHARS)
    reason: str = Field(
        max_length=50, description="`too-large` for the document, or why it cannot be read, such as `output-expired`."
    )


class SessionExport(KnownFieldsOnly):
    """A whole conversation: what `export` answers and `import` takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    title: str | None = Field(default=None, max_length=MAX_TITLE)
    settings: SessionRequest = Field(default=SessionRequest(), description="What the session was begun with.")
    turns: tuple[ExportedTurn, ...] = Field(
        default=(), max_length=MAX_IMPORTED_TURNS, description="Those that lead to the latest turn."
    )
    outputs: tuple[ExportedOutput, ...] = Field(
        default=(), max_length=10_000, description="With `outputs=true`: the stored outputs that the turns refer to."
    )
    left_out: tuple[OutputLeftOut, ...] = Field(
        default=(), max_length=10_000, description="With `outputs=true`: those of them that are not in `outputs`."
    )

    @field_validator("turns")
    @classmethod
    def _are_told_apart(cls, turns: tuple[ExportedTurn, ...]) -> tuple[ExportedTurn, ...]:
        if len({turn.id for turn in turns}) != len(turns):
            raise ValueError("have an id twice: each turn needs an id of its own")
        return turns
