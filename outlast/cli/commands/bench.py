"""`outlast bench tools`: what conversations with tools cost, measured on a running server."""

import math
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.runner import Context, server_command
from outlast.client import Event

_DECIMALS = 4


@dataclass
class Figures:
    """Sums over all conversations with one model; `document` makes averages of them."""

    conversations: int = 0
    turns: int = 0
    failed_turns: int = 0
    masked_turns: int = 0
    steps: int = 0
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    tool_calls: int = 0
    failed_tool_calls: int = 0
    stored_outputs: int = 0
    seconds: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def add_turn(self, events: Iterable[Event], *, offered: int = 0) -> None:
        """Count one turn, given all its events and the number of tools that its session offers."""
        self.turns += 1
        completed = False
        for event in events:
            match event.name:
                case "tool-result":
                    self._add_result(event.data)
                case "step-finish":
                    self._add_step(event.data)
                    active = event.data.get("active_tools")
                    self.masked_turns += (
                        event.data.get("step") == 1 and isinstance(active, list) and len(active) < offered
                    )
                case "finish":
                    completed = event.data.get("status") == "completed"
                case _:
                    pass
        self.failed_turns += not completed

    def document(self) -> dict[str, Any]:
        """The figures as JSON for programs; null where there is no measurement."""
        return {
            "conversations": self.conversations,
            "turns": self.turns,
            "failedTurns": self.failed_turns,
            "maskedTurns": self.masked_turns,
            "steps": self.steps,
            "avgSteps": _share(self.steps, self.turns),
            "avgInputTokens": self._average("input_tokens"),
            "avgOutputTokens": self._average("output_tokens"),
            "cacheReadTokens": self._average("cache_read_tokens"),
            "cacheWriteTokens": self._average("cache_write_tokens"),
            "cacheReadShare": _share(self.tokens.get("cache_read_tokens", 0), self.tokens.get("input_tokens", 0)),
            "toolCalls": self.tool_calls,
            "toolSuccessRate": _share(self.tool_calls - self.failed_tool_calls, self.tool_calls),
            "storedOutputs": self.stored_outputs,
            "modelSeconds": self._percentiles("model"),
            "toolSeconds": self._percentiles("tools"),
            "stepOverheadSeconds": self._percentiles("overhead"),
        }

    def _average(self, name: str) -> float | None:
        return _share(self.tokens.get(name, 0), self.conversations)

    def _percentiles(self, part: str) -> dict[str, float | None]:
        seconds = [step[part] for step in self.seconds if part != "tools" or step[part] > 0]
        return {"p50": _percentile(seconds, 50), "p95": _percentile(seconds, 95)}

    def _add_result(self, data: dict[str, Any]) -> None:
        self.tool_calls += 1
        self.failed_tool_calls += bool(data.get("is_error"))
        self.stored_outputs += bool(data.get("compressed"))

    def _add_step(self, data: dict[str, Any]) -> None:
        self.steps += 1
        for name, number in data["usage"].items():
            self.tokens[name] = self.tokens.get(name, 0) + number
        self.seconds.append(data["seconds"])


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, _DECIMALS) if whole else None


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that `percent` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1], _DECIMALS)


@dataclass(frozen=True)
class Prompt:
    """A message and the tools that answer it. With `--mask`, no other tools may be called."""

    message: str
    tools: tuple[str, ...]


TOOLS = ("actors", "docs", "get-actor-run", "restore-tool-output")
"""The first message, unless the command line sets another."""

PROMPTS = (
    Prompt(
        "Find Actors that crawl websites. Name the two that fit best, with one sentence about each.",
        ("search-actors", "restore-tool-output"),
    ),
    Prompt(
        "Read the details of the first one. Which fields of its input are required?",
        ("fetch-actor-details", "restore-tool-output"),
    ),
    Prompt(
        "What does the documentation say about storing results in a dataset? Two sentences.",
        ("search-apify-docs", "fetch-apify-docs", "restore-tool-output"),
    ),
    Prompt("Sum up in three sentences what you found out. Call no tool.", ()),
)


def mask_of(prompt: Prompt, offered: Collection[str]) -> dict[str, bool]:
    """The tool mask of a message: only the session's tools that answer it are active."""
    return {name: name in prompt.tools for name in offered}


app = typer.Typer(no_args_is_help=True, help="Measure a running server.")

DEFAULT_STEPS = 8
DEFAULT_MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "zai": "glm-4.7"}
"""A small model of each provider, so that a first measurement costs little. `generic` is anybody's server: none."""


@dataclass(frozen=True)
class _Measurement:
    """The measurement to make."""

    providers: tuple[str, ...]
    model_ids: tuple[str, ...]
    runs: int
    steps: int
    tools: tuple[str, ...] | None
    mask: bool
    compression: bool

    def models(self) -> list[tuple[str, str]]:
        """Providers with their models, the default ones when none is given. Raises `BadInput` when one has none."""
        if not self.model_ids:
            return [(provider, _default_model(provider)) for provider in self.providers]
        if len(self.providers) != len(self.model_ids):
            raise BadInput("Give as many --model as --provider, or none: the first belongs to the first.")
        return list(zip(self.providers, self.model_ids, strict=True))


def _default_model(provider: str) -> str:
    model = DEFAULT_MODELS.get(provider)
    if model is None:
        raise BadInput(f"The provider {provider!r} has no default model: give --model.")
    return model


@app.callback()
def bench() -> None:
    """Measure a running server."""


@app.command()
@server_command(as_json=True)
async def tools(
    context: Context,
    provider: Annotated[list[str], typer.Option(metavar="ID", help="Provider of the model; repeat it for several.")],
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="The model of each provider; without it a small one of the provider's."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Conversations with each model.")] = 3,
    steps: Annotated[
        int, typer.Option(min=1, max=200, metavar="K", help="Calls of the model per message, at most.")
    ] = DEFAULT_STEPS,
    mask: Annotated[bool, typer.Option("--mask", help="Send a mask with each message, another for each.")] = False,
    no_compression: Annotated[
        bool, typer.Option("--no-compression", help="Have outputs of any size sent to the model as they are.")
    ] = False,
    selected: Annotated[
        str | None, typer.Option("--tools", metavar="NAMES", help="Other tools for the conversations, comma-separated.")
    ] = None,
) -> ExitCode:
    """Hold the same conversations with each model, and print one JSON document of what they cost.

    Tokens are averages per conversation. The models are called for real, and so are the tools: both may cost money.

    Examples:
      outlast bench tools --provider anthropic --runs 5
      outlast bench tools --provider openai --model gpt-5 --provider generic --model qwen3 --mask
    """
    names = tuple(name.strip() for name in selected.split(",") if name.strip()) if selected else None
    measurement = _Measurement(
        tuple(provider), tuple(model or ()), runs, steps, names, mask, compression=not no_compression
    )
    return await _bench(context, measurement)


async def _bench(context: Context, measurement: _Measurement) -> ExitCode:

    measured: list[dict[str, Any]] = []
    failed = 0
    for provider_id, model_id in measurement.models():
        figures = Figures()
        for _ in range(measurement.runs):
            await _converse(context, measurement, provider_id, model_id, figures)
        failed += figures.failed_turns
        measured.append({"providerId": provider_id, "modelId": model_id, **figures.document()})
    if measurement.mask and not any(one["maskedTurns"] for one in measured):
        # Not a note: those are silent beside a JSON document.
        context.output.err.print(
            "The server does not heed masks: OUTLAST_TOOL_MASKING is off, or its kill switch is on."
        )
    context.output.document(
        {
            "runs": measurement.runs,
            "messages": len(PROMPTS),
            "maxSteps": measurement.steps,
            "mask": measurement.mask,
            "maskInForce": any(one["maskedTurns"] for one in measured),
            "compression": measurement.compression,
            "providers": measured,
        }
    )
    return ExitCode.FAILED if failed else ExitCode.OK


async def _converse(
    context: Context, measurement: _Measurement, provider_id: str, model_id: str, figures: "Figures"
) -> None:
    """Hold one conversation from its beginning to its end."""

    sessions, session_id = context.client.sessions, f"s-{secrets.token_hex(6)}"
    session = await sessions.create(
        session_id=session_id,
        provider_id=provider_id,
        model_id=model_id,
        max_steps=measurement.steps,
        tools=measurement.tools or TOOLS,
        # Otherwise the second conversation would be read from the cache of the first, word for word.
        instructions=f"This is conversation {session_id}.",
        compress=measurement.compression,
    )
    figures.conversations += 1
    for prompt in PROMPTS:
        mask = mask_of(prompt, list(session.tools)) if measurement.mask else None
        turn = await sessions.send(session_id, prompt.message, tool_mask=mask)
        async with sessions.turn_events(session_id, turn.id) as events:
            figures.add_turn([event async for event in events], offered=len(session.tools))
