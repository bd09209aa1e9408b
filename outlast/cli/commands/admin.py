"""`outlast admin`: what an operator sets up once."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.args import parse_duration
from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import JsonOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.api.temporal.namespace_setup import SetupStep

app = typer.Typer(no_args_is_help=True, help="Set a deployment up.")

_DAY_SECONDS = 86_400
_RETENTION_DAYS = 30
_TIMEOUT_SECONDS = 150
_MARKS = {"there": "[green]✓[/]", "made": "[green]+[/]", "refused": "[bold red]✗[/]", "wrong": "[bold red]✗[/]"}


@app.callback()
def admin() -> None:
    """Commands that set a deployment up."""


@app.command()
def setup(
    retention: Annotated[
        float | None,
        typer.Option(
            parser=parse_duration,
            metavar="TIME",
            show_default="30d",
            help="How long ended tasks are kept, at least: as long as sessions live.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make what tasks need in Temporal: the namespace, its retention, its search attributes.

    Connects as worker and API do (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*). Run it as
    often as you like: what exists stays. For what this credential may not do, the commands are printed,
    and the exit code is 1.
    """
    output = Output(as_json=as_json)
    seconds = _RETENTION_DAYS * _DAY_SECONDS if retention is None else retention
    if seconds < _DAY_SECONDS:
        raise typer.BadParameter("Temporal keeps ended tasks for one day at least.", param_hint="--retention")
    finish(output, lambda: _setup(output, timedelta(seconds=seconds)))


async def _setup(output: Output, retention: timedelta) -> ExitCode:
    from temporalio.service import RPCError  # noqa: PLC0415

    from outlast.api.temporal.namespace_setup import set_up_namespace  # noqa: PLC0415 (the Temporal SDK)
    from outlast.worker.connection import connect_plainly  # noqa: PLC0415

    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            client = await connect_plainly()
            where = f"{client.namespace} at {client.service_client.config.target_host}"
            steps = await set_up_namespace(client, retention=retention)
    except (RPCError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        reason = error.message if isinstance(error, RPCError) else str(error).partition("\n")[0]
        raise CliError(
            f"Temporal cannot be set up: {reason or 'no answer in time'}",
            exit_code=ExitCode.UNREACHABLE,
            hint="Check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, and the API key or certificate (docs/cluster.md).",
        ) from error
    is_done = all(step.is_done for step in steps)
    if output.as_json:
        output.document({"ok": is_done, "where": where, "steps": [step.model_dump(mode="json") for step in steps]})
    else:
        _show(output, where, steps)
    return ExitCode.OK if is_done else ExitCode.FAILED


def _show(output: Output, where: str, steps: "tuple[SetupStep, ...]") -> None:
    output.show(f"[bold]{escape(where)}[/]")
    for step in steps:
        output.show(f"{_MARKS[step.outcome]} {step.what}: {escape(step.detail)}")
        for command in step.commands:
            output.command(command)
    if any(step.commands for step in steps):
        output.note("Have somebody who may type these commands, or do so in the Temporal UI; then run this again.")
