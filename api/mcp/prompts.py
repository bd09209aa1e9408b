"""`prompts/*` and `completion/complete`. Extensions list their prompts in `PROMPTS`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.api.mcp.client_questions import ClientQuestions, answerable, parsed_answers
from outlast.api.mcp.connections import Connections
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.task_shapes import input_requests
from outlast.api.mcp.protocol.versions import Context, is_modern
from outlast.api.mcp.server_features import ServerFeatures, page
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.tools.extensions import extension_entries

JsonObject = dict[str, Any]
_MAX_COMPLETIONS = 100
_ARGUMENTS_KEY = "arguments"
"""Key of the question for missing arguments."""


@dataclass(frozen=True)
class PromptArgument:
    """One argument of a prompt. `values` are suggested while the user types."""

    name: str
    description: str
    required: bool = True
    values: Sequence[str] = ()


@dataclass(frozen=True)
class Prompt:
    """A prompt. `render` returns the content blocks (MCP `ContentBlock`) of its messages; all have the role `user`."""

    name: str
    title: str
    description: str
    render: Callable[[Mapping[str, str]], Sequence[JsonObject]]
    arguments: tuple[PromptArgument, ...] = field(default=())

    def missing_arguments(self, given: Mapping[str, str]) -> list[PromptArgument]:
        """Return the required arguments that `given` does not have."""
        return [argument for argument in self.arguments if argument.required and argument.name not in given]


class PromptMethods:
    """The handlers of `prompts/*` and `completion/complete`."""

    def __init__(
        self,
        connections: Connections,
        client_questions: ClientQuestions,
        default_actors: Sequence[str],
        servers: ServerFeatures,
    ) -> None:
        """`servers` has the prompts of MCP servers."""
        self._servers = servers
        self._connections = connections
        self._client_questions = client_questions
        self._default_actors = tuple(default_actors)
        offered = (RUN_ACTOR, *cast(tuple[Prompt, ...], extension_entries("PROMPTS")))
        self._prompts = {prompt.name: prompt for prompt in offered}

    async def list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> JsonObject:
        """`prompts/list`."""
        served = (await self._servers.offer(await self._connections.client(ctx))).prompts
        own = [_prompt_entry(prompt) for prompt in self._prompts.values()]
        others = [prompt.entry for name, prompt in served.items() if name not in self._prompts]
        return page("prompts", [*own, *others], params)

    async def get(self, ctx: Context, params: types.GetPromptRequestParams) -> JsonObject:
        """`prompts/get`. Asks the user for missing arguments if the client supports elicitation.

        Raises -32602 for an unknown prompt, or when an argument is still missing.
        """
        if params.name not in self._prompts:
            client = await self._connections.client(ctx)
            offer = await self._servers.offer(client)
            if params.name in offer.prompts:
                return await self._servers.prompt(client, offer, offer.prompts[params.name], params.arguments or {})
        prompt = await self._prompt(ctx, params.name)
        given = params.arguments or {}
        missing = prompt.missing_arguments(given)
        questions = answerable(ctx, {_ARGUMENTS_KEY: _arguments_question(prompt, missing)} if missing else {})
        if questions:
            answers = parsed_answers(params.input_responses or {}, questions)
            if not answers and is_modern(ctx):
                return {"resultType": "input_required", "inputRequests": input_requests(questions)}
            answer = answers.get(_ARGUMENTS_KEY)
            if answer is None:
                client = await self._connections.client(ctx)
                answer = await self._client_questions.ask(ctx, client.principal, questions[_ARGUMENTS_KEY])
            names = {argument.name for argument in missing}
            given = {**given, **{name: str(value) for name, value in answer.content.items() if name in names}}
        if still_missing := prompt.missing_arguments(given):
            names_text = ", ".join(argument.name for argument in still_missing)
            raise MCPError(INVALID_PARAMS, f"Prompt {prompt.name!r} needs these arguments: {names_text}.")
        messages = [{"role": "user", "content": block} for block in prompt.render(given)]
        return {"description": prompt.description, "messages": messages}

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> JsonObject:
        """`completion/complete`: the known values that begin with the typed text."""
        if not isinstance(params.ref, types.PromptReference) or params.ref.name not in self._prompts:
            client = await self._connections.client(ctx)
            suggested = await self._servers.complete(client, await self._servers.offer(client), params)
            if suggested is not None:
                return suggested
        values: Sequence[str] = ()
        if isinstance(params.ref, types.PromptReference):
            values = await self._suggested_values(ctx, await self._prompt(ctx, params.ref.name), params.argument.name)
        found = [value for value in values if value.startswith(params.argument.value)]
        shown = found[:_MAX_COMPLETIONS]
        return {"completion": {"values": shown, "total": len(found), "hasMore": len(found) > len(shown)}}

    async def _suggested_values(self, ctx: Context, prompt: Prompt, argument: str) -> Sequence[str]:
        if prompt is RUN_ACTOR and argument == "actor":
            client = await self._connections.client(ctx)
            return list(dict.fromkeys([*self._default_actors, *client.connection.added_actors]))
        return next((entry.values for entry in prompt.arguments if entry.name == argument), ())

    async def _prompt(self, ctx: Context, name: str) -> Prompt:
        prompt = self._prompts.get(name)
        if prompt is None:
            client = await self._connections.client(ctx)
            raise dialect_of(client.mode).unknown_prompt(name, list(self._prompts))
        return prompt


def _arguments_question(prompt: Prompt, missing: Sequence[PromptArgument]) -> InputRequest:
    fields: JsonObject = {entry.name: {"type": "string", "description": entry.description} for entry in missing}
    schema: JsonObject = {"type": "object", "properties": fields, "required": list(fields)}
    return InputRequest(message=f"The prompt {prompt.title!r} needs:", requested_schema=schema)


def _prompt_entry(prompt: Prompt) -> JsonObject:
    """MCP `Prompt`."""
    arguments: list[JsonObject] = [
        {"name": argument.name, "description": argument.description, "required": argument.required}
        for argument in prompt.arguments
    ]
    return {"name": prompt.name, "title": prompt.title, "description": prompt.description, "arguments": arguments}


def text_block(text: str) -> JsonObject:
    """Return a content block of text (MCP `TextContent`)."""
    return {"type": "text", "text": text}


RUN_ACTOR = Prompt(
    name="run-actor",
    title="Run an Actor",
    description="Find out what input an Actor takes, run it, and summarise its results.",
    arguments=(PromptArgument("actor", "Actor as `user/name`."), PromptArgument("goal", "What the result is for.")),
    render=lambda given: (
        text_block(
            f"Run the Actor {given['actor']} for me. What I want: {given['goal']}\n"
            "1. Look up its input with fetch-actor-details.\n"
            "2. Call it with call-actor. The input must fit the Actor's schema and ask for no more than I need.\n"
            "3. If the run has not finished when the call returns, collect the result with get-task.\n"
            "4. Summarise the result: the number of rows, the main findings, and where the remaining rows are."
        ),
    ),
)
