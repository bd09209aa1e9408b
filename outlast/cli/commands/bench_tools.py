"""`outlast bench tools`: what conversations with tools cost, measured on a running server."""

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, DataDirOption, Options, TokenOption, UrlOption
from outlast.cli.running import Context, run_action

if TYPE_CHECKING:
    from outlast.cli.chat.bench_figures import Figures

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
def tools(
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
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
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
    run_action(Options(url, token, data_dir, as_json=True), lambda context: _bench(context, measurement))


async def _bench(context: Context, measurement: _Measurement) -> ExitCode:
    from outlast.cli.chat.bench_figures import Figures  # noqa: PLC0415 (costs httpx, which `--help` must not pay)
    from outlast.cli.chat.bench_prompts import PROMPTS  # noqa: PLC0415

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
    from outlast.cli.chat.bench_prompts import PROMPTS, TOOLS, mask_of  # noqa: PLC0415

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
