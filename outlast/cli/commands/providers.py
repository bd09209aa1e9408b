"""`outlast providers`: the model providers and their known models."""

from collections.abc import Sequence

from rich.markup import escape

from outlast.cli.runner import Context, server_command
from outlast.cli.show.tables import Column
from outlast.client import Model, Provider

_PROVIDER_COLUMNS = (
    Column("PROVIDER", style="bold"),
    Column("KEY"),
    Column("CONTROLS", rank=1, least=12),
    Column("OTHER MODELS", rank=2),
)
_MODEL_COLUMNS = (
    Column("MODEL", style="bold"),
    Column("WINDOW", rank=1, justify="right"),
    Column("OUTPUT", rank=2, justify="right"),
    Column("PRICE", rank=4),
    Column("WITHOUT", rank=3, least=8),
)


@server_command()
async def providers(context: Context) -> None:
    """List the model providers: whether a worker has their keys, and their known models.

    A name that ends with * stands for all models whose names begin with it.
    """
    found = await context.client.providers()
    if context.output.as_json:
        context.output.document({"providers": [provider.document() for provider in found]})
        return
    context.output.table(_PROVIDER_COLUMNS, [_provider_row(provider) for provider in found])
    models = [_model_row(provider, model) for provider in found for model in provider.models]
    if models:
        context.output.show("")
        context.output.table(_MODEL_COLUMNS, models)


def _provider_row(provider: Provider) -> Sequence[str]:
    key = {True: "set", False: "[dim]not set[/]", None: "[dim]unknown[/]"}[provider.configured]
    others = "accepted" if provider.takes_any_model else "refused"
    return (escape(provider.id), key, escape(", ".join(provider.controls)), others)


def _model_row(provider: Provider, model: Model) -> Sequence[str]:
    return (
        escape(f"{provider.id}/{model.name}{'*' if model.is_family else ''}"),
        f"{model.window_tokens:,}" if model.window_tokens else "",
        f"{model.output_tokens:,}" if model.output_tokens else "",
        "yes" if model.has_price else "",
        escape(", ".join(model.lacks)),
    )
