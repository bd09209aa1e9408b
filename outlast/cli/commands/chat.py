"""`outlast chat`: a conversation on the terminal, with a model that works with Outlast's tools."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.cli.chat.control_options import (
    EffortOption,
    MaxOutputTokensOption,
    SchemaOption,
    SeedOption,
    StopOption,
    TemperatureOption,
    ThinkingTokensOption,
    given_controls,
)
from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, JsonOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action

if TYPE_CHECKING:
    from outlast.cli.ask.prompts import Lines
    from outlast.cli.chat.chat_turns import ChatTurns
    from outlast.client import MessageOptions, Session, SessionOptions


def chat(
    message: Annotated[
        str | None, typer.Argument(metavar="MESSAGE", help="Say only this, print the answer, and leave.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(metavar="ID", help="Provider of the model: openai, anthropic, zai, generic.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="ID", help="The model, in its provider's words.")] = None,
    tools: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Categories, tools and Actors, comma-separated.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this conversation.")] = None,
    temperature: TemperatureOption = None,
    effort: EffortOption = None,
    thinking_tokens: ThinkingTokensOption = None,
    max_output_tokens: MaxOutputTokensOption = None,
    stop: StopOption = None,
    seed: SeedOption = None,
    schema: SchemaOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Talk to a model that works with Outlast's tools.

    Every answer is a durable turn. Ctrl-C stops the answer under way, its tools and their runs; Ctrl-D leaves. What a
    tool asks is asked here. The tools of a conversation are those that it began with; how the model answers may change.

    Examples:
      outlast chat --provider anthropic --model claude-sonnet-4-5
      outlast chat --provider openai --model gpt-5 --tools actors,docs "What does apify/rag-web-browser do?"
    """
    controls = given_controls(
        temperature=temperature, effort=effort, thinking_tokens=thinking_tokens, stop=stop, seed=seed, schema=schema
    )
    selectors = [name.strip() for name in tools.split(",") if name.strip()] if tools else None
    wanted: SessionOptions = {
        "session_id": session,
        "provider_id": provider,
        "model_id": model,
        "tools": selectors,
        "controls": controls or None,
        "max_output_tokens": max_output_tokens,
    }
    run_action(Options(url, token, data_dir, as_json), lambda context: _chat(context, message, wanted))


async def _chat(context: Context, message: str | None, wanted: "SessionOptions") -> ExitCode:
    from outlast.cli.ask.prompts import typed_lines  # noqa: PLC0415
    from outlast.cli.chat.chat_turns import ChatTurns  # noqa: PLC0415 (costs httpx, which `--help` must not pay)

    provider, model = wanted.get("provider_id"), wanted.get("model_id")
    session = await _session(context, wanted)
    if not (provider or session.provider_id) or not (model or session.model_id):
        raise _no_model(context.client.connection.url)
    # With each message too: a conversation that was begun before has controls of its own.
    options: MessageOptions = {
        "provider_id": provider,
        "model_id": model,
        "controls": wanted.get("controls"),
        "max_output_tokens": wanted.get("max_output_tokens"),
    }
    turns = ChatTurns(context, session.id, options)
    if message is not None:
        return await turns.answer(message, lines=None)
    context.output.note(
        f"[dim]session {session.id} on {context.client.connection.url}, "
        f"{provider or session.provider_id}/{model or session.model_id}, {len(session.tools)} tools. Ctrl-D leaves.[/]"
    )
    async with typed_lines() as lines:
        await _talk(context, turns, lines)
    return ExitCode.OK


async def _session(context: Context, wanted: "SessionOptions") -> "Session":
    """The conversation to go on with, as it was begun; a new one when there is none with this id."""
    from outlast.client import NotFound  # noqa: PLC0415 (httpx)

    session_id = wanted.get("session_id")
    if session_id is not None:
        with suppress(NotFound):
            return await context.client.sessions.get(session_id)
    return await context.client.sessions.create(**wanted)


async def _talk(context: Context, turns: "ChatTurns", lines: "Lines") -> None:
    while True:
        try:
            message = await lines.ask(context.output, "[bold cyan]>[/]")
        except EOFError:
            return
        if message:
            await turns.answer(message, lines=lines)


def _no_model(url: str) -> BadInput:
    return BadInput(
        f"No model is chosen for this conversation on {url}.",
        hint="Name one: `outlast chat --provider anthropic --model claude-sonnet-4-5`. The worker needs the provider's "
        "key in OPENAI_API_KEY, ANTHROPIC_API_KEY or OUTLAST_ZAI_API_KEY; for --provider generic, the server's address "
        "in OUTLAST_GENERIC_BASE_URL.",
    )
