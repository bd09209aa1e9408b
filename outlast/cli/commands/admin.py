"""`outlast admin`: set up a deployment."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.options import CliError, ExitCode, time_option
from outlast.cli.runner import local_command
from outlast.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.api.temporal.namespace_setup import SetupStep

app = typer.Typer(name="admin", no_args_is_help=True, help="Set up a deployment.")

_DAY_SECONDS = 86_400
_TIMEOUT_SECONDS = 150
_MARKS = {"there": "[green]✓[/]", "made": "[green]+[/]", "refused": "[bold red]✗[/]", "wrong": "[bold red]✗[/]"}


@app.callback()
def admin() -> None:
    """Set up a deployment."""


@local_command(app)
async def setup(
    output: Output,
    retention: Annotated[
        float | None,
        time_option("Minimum time that ended tasks are kept: as long as sessions exist.", show_default="30d"),
    ] = None,
) -> ExitCode:
    """Create what tasks need in Temporal: the namespace, its retention, its search attributes.

    Connects as worker and API do (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*). You can run
    it any number of times: existing values do not change. If the credential lacks a permission, the commands for
    somebody who has it are printed, and the exit code is 1.
    """
    seconds = 30 * _DAY_SECONDS if retention is None else retention
    if seconds < _DAY_SECONDS:
        raise typer.BadParameter("Temporal keeps ended tasks for at least one day.", param_hint="--retention")
    from temporalio.service import RPCError  # noqa: PLC0415

    from outlast.api.temporal.namespace_setup import set_up_namespace  # noqa: PLC0415 (the Temporal SDK)
    from outlast.worker.connection import connect_plainly  # noqa: PLC0415

    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            client = await connect_plainly()
            where = f"{client.namespace} at {client.service_client.config.target_host}"
            steps = await set_up_namespace(client, retention=timedelta(seconds=seconds))
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
        output.note(
            "Ask somebody who may do this to run these commands or to use the Temporal UI; then run this again."
        )
