"""Prompts: texts that a user picks from a menu of the client, filled with arguments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.api.mcp.calls.questions import answerable, client_answer, parsed_answers
from outlast.api.mcp.connections import Connections
from outlast.api.mcp.protocol.eras import Context, is_modern
from outlast.api.mcp.protocol.task_shapes import input_requests
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.tools.extensions import extension_entries

JsonObject = dict[str, Any]
_MAX_COMPLETIONS = 100
_MISSING = "arguments"
"""Key of the question for arguments that were not given."""


@dataclass(frozen=True)
class PromptArgument:
    """One argument of a prompt. `values` are suggested while the user types."""

    name: str
    description: str
    required: bool = True
    values: Sequence[str] = ()


@dataclass(frozen=True)
class Prompt:
    """A prompt. `render` gives its content blocks (MCP `ContentBlock`), all said by the user."""

    name: str
    title: str
    description: str
    render: Callable[[Mapping[str, str]], Sequence[JsonObject]]
    arguments: tuple[PromptArgument, ...] = field(default=())


def text_block(text: str) -> JsonObject:
    """A piece of text (MCP `TextContent`)."""
    return {"type": "text", "text": text}


RUN_ACTOR = Prompt(
    name="run-actor",
    title="Run an Actor",
    description="Find out what an Actor needs, run it, and summarise what it produced.",
    arguments=(
        PromptArgument("actor", "Actor as `user/name`."),
        PromptArgument("goal", "What the result is for."),
    ),
    render=lambda given: (
        text_block(
            f"Run the Actor {given['actor']} for me. What I want: {given['goal']}\n"
            "1. Look up what it needs with fetch-actor-details.\n"
            "2. Call it with call-actor, with an input that fits its schema and asks for no more than needed.\n"
            "3. If it is not done when the call returns, collect the result with get-task.\n"
            "4. Summarise what came back, with the number of rows and where the rest of them is."
        ),
    ),
)


class Prompts:
    """The handlers of `prompts/*` and `completion/complete`."""

    def __init__(self, connections: Connections, default_actors: Sequence[str]) -> None:
        """Offer the built-in prompts and those of extensions; Actors are suggested from `default_actors`."""
        self._connections = connections
        self._default_actors = tuple(default_actors)
        offered = (RUN_ACTOR, *cast(tuple[Prompt, ...], extension_entries("PROMPTS")))
        self._prompts = {prompt.name: prompt for prompt in offered}

    async def list(self, _ctx: Context, _params: types.PaginatedRequestParams | None) -> JsonObject:
        """`prompts/list`."""
        return {"prompts": [_listed(prompt) for prompt in self._prompts.values()]}

    async def get(self, ctx: Context, params: types.GetPromptRequestParams) -> JsonObject:
        """`prompts/get`. The user is asked for missing arguments, where the client can ask.

        Raises -32602 for an unknown prompt, or for an argument that is missing in the end.
        """
        prompt = self._named(params.name)
        given = params.arguments or {}
        asked = {_MISSING: _question(prompt, missing)} if (missing := _missing(prompt, given)) else {}
        if answerable(ctx, asked):
            answers = parsed_answers(params.input_responses or {}, asked)
            if not answers and is_modern(ctx):
                return {"resultType": "input_required", "inputRequests": input_requests(asked)}
            answer = answers.get(_MISSING) or await client_answer(ctx, asked[_MISSING])
            named = {argument.name for argument in missing}
            given = {**given, **{name: str(value) for name, value in answer.content.items() if name in named}}
        if still := _missing(prompt, given):
            raise MCPError(INVALID_PARAMS, f"Prompt {prompt.name!r} lacks: {', '.join(entry.name for entry in still)}.")
        messages = [{"role": "user", "content": block} for block in prompt.render(given)]
        return {"description": prompt.description, "messages": messages}

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> JsonObject:
        """`completion/complete`: the known values that begin with what was typed."""
        values: Sequence[str] = ()
        if isinstance(params.ref, types.PromptReference):
            values = await self._values(ctx, self._named(params.ref.name), params.argument.name)
        found = [value for value in values if value.startswith(params.argument.value)]
        shown = found[:_MAX_COMPLETIONS]
        return {"completion": {"values": shown, "total": len(found), "hasMore": len(found) > len(shown)}}

    async def _values(self, ctx: Context, prompt: Prompt, argument: str) -> Sequence[str]:
        if prompt is RUN_ACTOR and argument == "actor":
            client = await self._connections.client(ctx)
            return list(dict.fromkeys([*self._default_actors, *client.connection.added_actors]))
        return next((entry.values for entry in prompt.arguments if entry.name == argument), ())

    def _named(self, name: str) -> Prompt:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, f"There is no prompt {name!r}. There are: {', '.join(self._prompts)}.")
        return prompt


def _missing(prompt: Prompt, given: Mapping[str, str]) -> list[PromptArgument]:
    return [argument for argument in prompt.arguments if argument.required and argument.name not in given]


def _question(prompt: Prompt, missing: Sequence[PromptArgument]) -> InputRequest:
    fields: JsonObject = {entry.name: {"type": "string", "description": entry.description} for entry in missing}
    schema: JsonObject = {"type": "object", "properties": fields, "required": list(fields)}
    return InputRequest(message=f"What the prompt {prompt.title!r} needs to know:", requested_schema=schema)


def _listed(prompt: Prompt) -> JsonObject:
    arguments = [
        {"name": argument.name, "description": argument.description, "required": argument.required}
        for argument in prompt.arguments
    ]
    return {"name": prompt.name, "title": prompt.title, "description": prompt.description, "arguments": arguments}
