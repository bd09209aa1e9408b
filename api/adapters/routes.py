"""`/v1/adapters`: the tools in the form of a model's provider, and the calls of its messages."""

from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from outlast.activities.bounds import MAX_SECONDS
from outlast.activities.contracts import JsonObject
from outlast.api.access.principal import Principal
from outlast.api.adapters.adapter import BACK_ENDS, Adapter
from outlast.api.adapters.message_formats import CallReport
from outlast.api.http.dependencies import KnownParametersRoute, ReaderDep, ServicesDep, StarterDep
from outlast.api.http.problems import documented_problems
from outlast.api.services import Services
from outlast.api.settings import split_names
from outlast.api.tasks.arguments import DEFAULT_WAIT_SECONDS
from outlast.workflows.contracts.tool_calls import CallOptions
from outlast.workflows.contracts.tool_masks import TOOL_MASK_DESCRIPTION, ToolMask
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly

router = APIRouter(prefix="/v1/adapters", tags=["adapters"], route_class=KnownParametersRoute)


class Provider(StrEnum):
    """Providers with an adapter. MCP is not one of them: it has its own entry point."""

    ANTHROPIC = "anthropic"
    OPENAI_RESPONSES = "openai-responses"
    OPENAI_CHAT = "openai-chat"


class ProviderTools(BaseModel):
    """The value for a request's `tools`."""

    tools: list[JsonObject]


class CallsBody(KnownFieldsOnly):
    """A model's message with its tool calls."""

    model_config = ConfigDict(extra="forbid")

    message: JsonObject | list[JsonObject] = Field(
        description="The message as the provider gave it, whole, or its list of content blocks, output items or calls."
    )
    session_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[\w.:@-]+$",
        description="The conversation. Ids of calls are unique within it.",
    )
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        pattern=r"^[^/]+$",
        description="The message, for providers whose call ids are unique only within a message.",
    )
    tools: list[str] | None = Field(
        default=None,
        max_length=200,
        description="The same selection as for the list of tools; other tools are not called.",
    )
    mode: str | None = Field(default=None, description="How tools are presented; by default, the server's mode.")
    wait: float = Field(
        default=DEFAULT_WAIT_SECONDS,
        ge=0,
        le=MAX_SECONDS,
        description="Seconds to wait for the answers, up to the server's limit. After that, the tasks continue.",
    )
    options: CallOptions = Field(default_factory=CallOptions, description="Deadline and budget of each call.")
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )


class CallsAnswered(BaseModel):
    """The results of the calls. Nothing to append means that the model called no tool."""

    append: list[JsonObject] = Field(description="Append this to the conversation, unchanged.")
    calls: list[CallReport] = Field(description="The same results for the program, in the order of the calls.")


_NAME, _ARGUMENTS = "outlast--sleeper", '{"seconds": 2}'
_EXAMPLES: dict[str, Any] = {
    "anthropic": {
        "summary": "anthropic: a message of the assistant",
        "value": {
            "message": {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I will wait two seconds."},
                    {"type": "tool_use", "id": "toolu_01", "name": _NAME, "input": {"seconds": 2}},
                ],
            },
            "session_id": "chat-7",
        },
    },
    "openai-responses": {
        "summary": "openai-responses: output items",
        "value": {
            "message": [{"type": "function_call", "call_id": "call_01", "name": _NAME, "arguments": _ARGUMENTS}],
            "session_id": "chat-7",
        },
    },
    "openai-chat": {
        "summary": "openai-chat: a message of the assistant",
        "value": {
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_01", "type": "function", "function": {"name": _NAME, "arguments": _ARGUMENTS}}
                ],
            },
            "session_id": "chat-7",
        },
    },
}

ProviderPath = Annotated[Provider, Path(description="The provider whose format the tools and messages have.")]


@router.get("/{provider}/tools", responses=documented_problems(401, 404, 503))
async def list_provider_tools(
    provider: ProviderPath,
    services: ServicesDep,
    principal: ReaderDep,
    tools: Annotated[
        str | None,
        Query(
            max_length=4096,
            description="Categories, tags (`tag:NAME`), tools, Actors, comma-separated; the default set when absent.",
        ),
    ] = None,
    mode: Annotated[str | None, Query(description="How tools are presented; by default, the server's mode.")] = None,
) -> ProviderTools:
    """The tools in the format of the provider's requests, under names that it accepts."""
    adapter = _adapter(services, provider, principal, mode, None if tools is None else list(split_names(tools)))
    return ProviderTools(tools=await adapter.tools())


@router.post("/{provider}/calls", responses=documented_problems(400, 401, 404, 413, 422, 503))
async def answer_calls(
    provider: ProviderPath,
    body: Annotated[CallsBody, Body(openapi_examples=_EXAMPLES)],
    services: ServicesDep,
    principal: StarterDep,
) -> CallsAnswered:
    """Run the tool calls of a message in parallel, and return what to append to the conversation.

    Each call is a task like any other. A failure is an answer for the model: an unknown tool, arguments that do not
    match the schema, a failing tool. The same call (same id, same session) is the same task: after a broken
    connection, or a 503, send the same request again. The answer of a call that takes longer than `wait` explains how
    to collect its result, and that of a call that waits for input contains the question.
    """
    adapter = _adapter(services, provider, principal, body.mode, body.tools)
    answered = await adapter.answer(
        body.message,
        session_id=body.session_id,
        message_id=body.message_id,
        options=body.options,
        wait_seconds=body.wait,
        tool_mask=body.tool_mask,
    )
    return CallsAnswered(append=answered.append, calls=list(answered.calls))


def _adapter(
    services: Services, provider: Provider, principal: Principal, mode: str | None, tools: list[str] | None
) -> Adapter:
    return Adapter(services, BACK_ENDS[provider.value], principal=principal, mode=mode, tools=tools)
