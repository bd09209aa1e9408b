"""`outlast bench tools`: the cost of conversations with tools, measured on a running server."""

import math
import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import typer

from outlast.cli.options import BadInput, ExitCode, names_in
from outlast.cli.runner import Context, server_command
from outlast.client import Event, SessionOptions

_DECIMALS = 4


@dataclass
class Figures:
    """Sums over all conversations with one model."""

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
        """Count a turn by all its events; its session offers this number of tools."""
        self.turns += 1
        completed = False
        for event in events:
            match event.name:
                case "tool-result":
                    self.tool_calls += 1
                    self.failed_tool_calls += bool(event.data.get("is_error"))
                    self.stored_outputs += bool(event.data.get("compressed"))
                case "step-finish":
                    self._add_step(event.data, offered)
                case "finish":
                    completed = event.data.get("status") == "completed"
                case _:
                    pass
        self.failed_turns += not completed

    def document(self) -> dict[str, Any]:
        """Return averages, rates and percentiles; null if there is no measurement."""
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

    def _add_step(self, data: dict[str, Any], offered: int) -> None:
        self.steps += 1
        for name, number in data["usage"].items():
            self.tokens[name] = self.tokens.get(name, 0) + number
        self.seconds.append(data["seconds"])
        active = data.get("active_tools")
        self.masked_turns += (
            data.get("step") == 1 and isinstance(active, list) and len(cast(list[Any], active)) < offered
        )


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, _DECIMALS) if whole else None


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1], _DECIMALS)


@dataclass(frozen=True)
class Prompt:
    """A message and the tools that answer it. With `--mask`, only these may be called."""

    message: str
    tools: tuple[str, ...]


TOOLS = ("actors", "docs", "get-actor-run", "restore-tool-output")
"""The tools of the conversations, unless the command line names others."""

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
    """Return the tool mask of a message: only the session's tools that answer it are active."""
    return {name: name in prompt.tools for name in offered}


app = typer.Typer(name="bench", no_args_is_help=True, help="Measure a running server.")

DEFAULT_MODELS = {"openai": "gpt-5-mini", "anthropic": "claude-haiku-4-5", "zai": "glm-4.7"}
"""A small model of each provider, so that a first measurement is cheap. `generic` can be any server: it has none."""


@app.callback()
def bench() -> None:
    """Measure a running server."""


@server_command(app, as_json=True)
async def tools(
    context: Context,
    provider: Annotated[list[str], typer.Option(metavar="ID", help="Provider of the model; repeatable.")],
    model: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Model of each provider. Default: a small one.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Conversations with each model.")] = 3,
    steps: Annotated[
        int, typer.Option(min=1, max=200, metavar="K", help="Maximum calls of the model for each message.")
    ] = 8,
    mask: Annotated[bool, typer.Option("--mask", help="Send a different tool mask with each message.")] = False,
    no_compression: Annotated[
        bool, typer.Option("--no-compression", help="Send outputs of any size to the model unchanged.")
    ] = False,
    selected: Annotated[
        str | None, typer.Option("--tools", metavar="NAMES", help="Other tools for the conversations, comma-separated.")
    ] = None,
) -> ExitCode:
    """Hold the same conversations with each model, and print their cost as one JSON document.

    Token counts are averages per conversation. Models and tools are really called: both may cost money.

    Examples:
      outlast bench tools --provider anthropic --runs 5
      outlast bench tools --provider generic --model qwen3 --mask
    """
    compression = not no_compression
    settings: SessionOptions = {
        "max_steps": steps,
        "tools": tuple(names_in(selected)) or TOOLS,
        "compress": compression,
    }
    measured: list[dict[str, Any]] = []
    failed = 0
    for provider_id, model_id in _models(provider, model or []):
        figures = Figures()
        for _ in range(runs):
            wanted: SessionOptions = {**settings, "provider_id": provider_id, "model_id": model_id}
            await _converse(context, wanted, figures, mask=mask)
        failed += figures.failed_turns
        measured.append({"providerId": provider_id, "modelId": model_id, **figures.document()})
    masked = any(one["maskedTurns"] for one in measured)
    if mask and not masked:
        # Not a note: those are silent beside a JSON document.
        context.output.err.print("The server ignores masks: OUTLAST_TOOL_MASKING is off, or its kill switch is on.")
    context.output.document(
        {
            "runs": runs,
            "messages": len(PROMPTS),
            "maxSteps": steps,
            "mask": mask,
            "maskInForce": masked,
            "compression": compression,
            "providers": measured,
        }
    )
    return ExitCode.FAILED if failed else ExitCode.OK


def _models(providers: list[str], models: list[str]) -> list[tuple[str, str]]:
    """Return the providers with their models. Raises `BadInput` if a provider has none."""
    if models and len(providers) != len(models):
        raise BadInput("Give one --model for each --provider, in the same order, or none.")
    chosen = models or [DEFAULT_MODELS.get(provider, "") for provider in providers]
    if "" in chosen:
        raise BadInput(f"The provider {providers[chosen.index('')]!r} has no default model: give --model.")
    return list(zip(providers, chosen, strict=True))


async def _converse(context: Context, settings: SessionOptions, figures: Figures, *, mask: bool) -> None:
    sessions, session_id = context.client.sessions, f"s-{secrets.token_hex(6)}"
    # Different instructions, or the model would read the second conversation from the cache of the first.
    instructions = f"This is conversation {session_id}."
    session = await sessions.create(**{**settings, "session_id": session_id, "instructions": instructions})
    figures.conversations += 1
    for prompt in PROMPTS:
        tool_mask = mask_of(prompt, list(session.tools)) if mask else None
        turn = await sessions.send(session_id, prompt.message, tool_mask=tool_mask)
        async with sessions.turn_events(session_id, turn.id) as events:
            figures.add_turn([event async for event in events], offered=len(session.tools))
