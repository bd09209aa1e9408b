"""`outlast mcp`: MCP on standard input and output, for clients that start their servers."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import SecretStr

from outlast.cli.commands.stack import refuse_wrong_settings, stack_config, stack_failure
from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.install.command import install, uninstall
from outlast.cli.options import DEFAULT_DATA_DIR
from outlast.cli.runner import finish
from outlast.cli.show.output import LoggedOutput, Output
from outlast.cli.stack_options import BeginAnewOption, StackDataDirOption, ToolsFromOption

if TYPE_CHECKING:
    from outlast.api.mcp.stdio import LocalConnection
    from outlast.api.settings import ApiSettings
    from outlast.deploy.local.config import StackConfig
    from outlast.deploy.local.state import StackAddresses

_CONNECTION = "What this connection offers"
_SERVER = (
    "outlast.api.mcp.stdio",
    "outlast.api.services",
    "outlast.worker.connection",
    "outlast.worker.otlp.traces",
)
"""Modules that take a second to load (the SDKs of Temporal and MCP), meanwhile the stack starts."""


app = typer.Typer(invoke_without_command=True)
app.command()(install)
app.command()(uninstall)


@dataclass(frozen=True, slots=True)
class ConnectionFlags:
    """The flags that concern the connection."""

    query: Mapping[str, Sequence[str]]
    token: str | None


ModeOption = Annotated[
    str | None, typer.Option(help="Mode: default, openai (also: apps, true) or apify.", rich_help_panel=_CONNECTION)
]
UiOption = Annotated[
    str | None, typer.Option(help="In mode apify: apps or default. Else as --mode.", rich_help_panel=_CONNECTION)
]
ToolsOption = Annotated[
    str | None, typer.Option(help="Categories, tools and Actors, comma-separated.", rich_help_panel=_CONNECTION)
]
ActorsOption = Annotated[
    str | None,
    typer.Option(help="Actors to offer as additional tools, comma-separated.", rich_help_panel=_CONNECTION),
]
PaymentOption = Annotated[
    str | None, typer.Option(help="How calls are paid: skyfire, in mode apify also x402.", rich_help_panel=_CONNECTION)
]
TelemetryOption = Annotated[
    str | None,
    typer.Option(
        help="In mode apify: true or false, whether report-problem is offered. Nothing is sent to anybody.",
        rich_help_panel=_CONNECTION,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        envvar="OUTLAST_TOKEN",
        help="API key, or your Apify token, if the stack requires one. Safer in the environment.",
        rich_help_panel=_CONNECTION,
    ),
]


@app.callback()
def mcp(
    context: typer.Context,
    mode: ModeOption = None,
    ui: UiOption = None,
    tools: ToolsOption = None,
    actors: ActorsOption = None,
    payment: PaymentOption = None,
    telemetry_enabled: TelemetryOption = None,
    token: TokenOption = None,
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    actor_dir: Annotated[
        list[Path] | None,
        typer.Option(
            envvar="OUTLAST_ACTORS",
            exists=True,
            file_okay=False,
            help="Folder with one or more Actors of your own, for the sandbox. Repeatable.",
        ),
    ] = None,
    tools_from: ToolsFromOption = None,
    begin_anew: BeginAnewOption = False,
) -> None:
    """Serve MCP on standard input and output, for clients such as Claude Desktop that start their servers.

    Uses the stack that runs on the data directory, or starts one. A stack that it starts runs as long as any client
    uses it. Tasks continue when the client disconnects. Standard output carries the protocol only; messages go to
    standard error.
    """
    if context.invoked_subcommand is not None:
        _refuse_flags_before(context)
        return
    given = {
        "mode": mode,
        "telemetry-enabled": telemetry_enabled,
        "ui": ui,
        "tools": tools,
        "actors": actors,
        "payment": payment,
    }
    flags = ConnectionFlags({name: [value] for name, value in given.items() if value is not None}, token)
    folders = tuple(actor_dir) if actor_dir else None
    stack = {"data_dir": data_dir, "actors": folders, "tools_from": tools_from, "begin_anew": begin_anew}
    output = _output()
    finish(output, lambda: serve(output, flags, stack))


def _output() -> Output:
    """The command's output, in the form of this process's log: both go to standard error."""
    if os.environ.get("OUTLAST_LOG_FORMAT") == "json":
        return LoggedOutput("outlast.mcp")
    output = Output(as_json=False)
    output.err.soft_wrap = True  # Clients log standard error line by line: one line per message.
    return output


def _refuse_flags_before(context: typer.Context) -> None:
    """A flag of the server before a command of its own would be lost without a word."""
    given = [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise typer.BadParameter(f"Write {flags} behind {context.invoked_subcommand}.")


def _load_server() -> None:
    for module in _SERVER:
        import_module(module)


async def serve(output: Output, flags: ConnectionFlags, given: Mapping[str, object]) -> ExitCode:
    """Serve one client until it closes standard input. A failure to start is reported to the client, too."""
    try:
        config = stack_config(given)
        await refuse_wrong_settings(config)
        async with _stack_in_use(output, config) as addresses:
            await _serve_on(config, addresses, flags)
            output.note("The client has disconnected.")
    except CliError as error:
        await _refuse(error.message)
        raise
    except Exception as error:
        if (failure := _reportable(error)) is None:
            raise
        await _refuse(failure.message)
        raise failure from error
    return ExitCode.OK


async def _serve_on(config: "StackConfig", addresses: "StackAddresses", flags: ConnectionFlags) -> None:
    from outlast.api.mcp.stdio import serve_stdio  # noqa: PLC0415
    from outlast.api.services import Services  # noqa: PLC0415
    from outlast.worker.connection import connect  # noqa: PLC0415
    from outlast.worker.otlp.traces import start_tracing  # noqa: PLC0415

    settings = _settings_for(config, addresses)
    local = connection_of(flags, settings)
    stop_tracing = start_tracing(settings, "mcp")
    try:
        services = Services(settings, await connect(settings, lazy=True))
        await services.callers.resolve(local.token)
        await serve_stdio(services, local)
    finally:
        stop_tracing()


async def _refuse(reason: str) -> None:
    from outlast.api.mcp.stdio import refuse_stdio  # noqa: PLC0415

    await refuse_stdio(reason)


@asynccontextmanager
async def _stack_in_use(output: Output, config: "StackConfig") -> "AsyncGenerator[StackAddresses]":
    """The addresses of the stack, which runs at least until the end of the block. Raises `CliError`.

    What serving needs is loaded while the stack starts.
    """

    from outlast.deploy.local.errors import StackError  # noqa: PLC0415
    from outlast.deploy.local.shared_stack import used_stack  # noqa: PLC0415
    from outlast.deploy.local.state import find_running  # noqa: PLC0415

    async with AsyncExitStack() as used:
        try:
            verb = "Joining the stack" if find_running(config.data_dir) else "Starting a stack"
            output.note(f"{verb} on {config.data_dir}.")
            addresses = await used.enter_async_context(used_stack(config, _load_server))
        except (StackError, OSError) as error:
            raise stack_failure(error) from error
        output.note(f"Serving MCP on standard input and output. REST API of the stack: {addresses.api_url}")
        yield addresses


def _settings_for(config: "StackConfig", addresses: "StackAddresses") -> "ApiSettings":
    """Settings of a server that uses the stack. Sets up logging, and loads the user's tools: by default the stack's."""
    from outlast.api.settings import ApiSettings  # noqa: PLC0415
    from outlast.deploy.local.plan import stack_environment  # noqa: PLC0415
    from outlast.deploy.local.state import find_running  # noqa: PLC0415
    from outlast.worker.logs import configure_logging  # noqa: PLC0415
    from outlast.workflows.tools.extensions import load_extensions  # noqa: PLC0415

    os.environ.update(stack_environment(config, addresses))
    settings = ApiSettings()
    configure_logging(settings.log_format, settings.log_level, settings.task_lines)
    running = find_running(config.data_dir)
    if running is not None and not settings.tool_modules:
        load_extensions(running.tool_modules, running.folder)
    else:
        load_extensions(settings.tool_modules)
    return settings


def _reportable(error: Exception) -> CliError | None:
    """`error` as the command line reports it; None for a defect."""
    from outlast.api.errors import ApiError  # noqa: PLC0415
    from outlast.workflows.tools.extensions import ExtensionError  # noqa: PLC0415

    return CliError(str(error), exit_code=ExitCode.USAGE) if isinstance(error, ApiError | ExtensionError) else None


def connection_of(flags: ConnectionFlags, settings: "ApiSettings") -> "LocalConnection":
    """The connection that the flags describe. Raises `BadInput`."""

    from outlast.api.errors import BadRequest  # noqa: PLC0415
    from outlast.api.mcp.connections import selection_from  # noqa: PLC0415
    from outlast.api.mcp.stdio import LocalConnection  # noqa: PLC0415

    try:
        selection = selection_from(flags.query, default_mode=settings.mode, environment=os.environ)
    except BadRequest as error:
        raise BadInput(str(error)) from error
    return LocalConnection(selection, SecretStr(flags.token) if flags.token else None)
