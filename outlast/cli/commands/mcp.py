"""`outlast mcp`: MCP on standard input and output, for clients that start their servers."""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Unpack

import typer
from pydantic import SecretStr

from outlast.cli import stack_options
from outlast.cli.commands.stack import checked_config, stack_errors
from outlast.cli.install.command import install, uninstall
from outlast.cli.options import DEFAULT_DATA_DIR, BadInput, CliError, ExitCode, expanded
from outlast.cli.runner import finish
from outlast.cli.show.output import LoggedOutput, Output

if TYPE_CHECKING:
    from outlast.api.mcp.stdio import LocalConnection
    from outlast.api.settings import ApiSettings
    from outlast.deploy.local.config import StackConfig
    from outlast.deploy.local.state import StackAddresses, StackState

_SERVER = ("outlast.api.mcp.stdio", "outlast.api.services", "outlast.worker.connection", "outlast.worker.otlp.traces")
"""Modules that take a second to load (the SDKs of Temporal and MCP), while the stack starts."""

app = typer.Typer(name="mcp", invoke_without_command=True)
app.command()(install)
app.command()(uninstall)


@app.callback()
@expanded
def mcp(
    context: typer.Context,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="OUTLAST_TOKEN",
            help="API key, or your Apify token, if the stack requires one. Safer in the environment.",
            rich_help_panel=stack_options.PANEL_OF_CONNECTION,
        ),
    ] = None,
    data_dir: stack_options.StackDataDirOption = DEFAULT_DATA_DIR,
    actor_dir: stack_options.ActorFoldersOption = None,
    tools_from: stack_options.ToolsFromOption = None,
    mcp_servers: stack_options.McpServersOption = None,
    ready_timeout_seconds: stack_options.ReadyTimeoutOption = None,
    begin_anew: stack_options.BeginAnewOption = False,
    **flags: Unpack[stack_options.ConnectionFlags],
) -> None:
    """Serve MCP on standard input and output, for clients such as Claude Desktop that start their servers.

    Uses the stack that runs on the data directory, or starts one, which runs as long as any client uses it. Tasks
    continue when the client disconnects. Standard output carries only the protocol; messages go to standard error.
    """
    if context.invoked_subcommand is not None:
        names = [name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")]
        if names:  # they would be ignored
            given = ", ".join(f"--{name.replace('_', '-')}" for name in names)
            raise typer.BadParameter(f"Write {given} after {context.invoked_subcommand}.")
        return
    query = stack_options.connection_query(flags)
    stack = {
        "data_dir": data_dir,
        "actors": actor_dir,
        "tools_from": tools_from,
        "mcp_servers": mcp_servers,
        "ready_timeout_seconds": ready_timeout_seconds,
        "begin_anew": begin_anew,
    }
    output = _output()
    finish(output, lambda: serve(output, stack, query, token))


def _output() -> Output:
    """Return an output in the form of the log of this process: both go to standard error."""
    if os.environ.get("OUTLAST_LOG_FORMAT") == "json":
        return LoggedOutput("outlast.mcp")
    output = Output(as_json=False)
    output.err.soft_wrap = True  # Clients log standard error line by line.
    return output


async def serve(output: Output, given: Mapping[str, object], query: Mapping[str, str], token: str | None) -> None:
    """Serve one client until it closes standard input. A failure to start is reported to the client too."""
    try:
        config = await checked_config(given)
        async with _stack_in_use(output, config) as addresses:
            await _serve_on(config, addresses, query, token)
            output.note("The client has disconnected.")
    except Exception as error:
        from outlast.api.errors import ApiError  # noqa: PLC0415
        from outlast.api.mcp.stdio import refuse_stdio  # noqa: PLC0415
        from outlast.workflows.tools.extensions import ExtensionError  # noqa: PLC0415

        if not isinstance(error, CliError | ApiError | ExtensionError):
            raise
        await refuse_stdio(str(error))
        if isinstance(error, CliError):
            raise
        raise CliError(str(error), exit_code=ExitCode.USAGE) from error


async def _serve_on(
    config: "StackConfig", addresses: "StackAddresses", query: Mapping[str, str], token: str | None
) -> None:
    from outlast.api.mcp.stdio import serve_stdio  # noqa: PLC0415
    from outlast.api.services import Services  # noqa: PLC0415
    from outlast.worker.connection import connect  # noqa: PLC0415
    from outlast.worker.otlp.traces import start_tracing  # noqa: PLC0415

    settings = _settings_for(config, addresses)
    local = connection_of(query, token, settings)
    stop_tracing = start_tracing(settings, "mcp")
    try:
        services = Services(settings, await connect(settings, lazy=True))
        await services.callers.resolve(local.token)
        await serve_stdio(services, local)
    finally:
        stop_tracing()


@asynccontextmanager
async def _stack_in_use(output: Output, config: "StackConfig") -> "AsyncGenerator[StackAddresses]":
    """Yield the addresses of the stack, which runs at least until the end of the block. Raises `CliError`."""
    from outlast.deploy.local.shared_stack import used_stack  # noqa: PLC0415
    from outlast.deploy.local.state import find_running  # noqa: PLC0415

    def load_server() -> None:
        for module in _SERVER:
            import_module(module)

    async with AsyncExitStack() as used:
        with stack_errors():
            verb = "Joining the stack" if find_running(config.data_dir) else "Starting a stack"
            output.note(f"{verb} on {config.data_dir}.")
            addresses = await used.enter_async_context(used_stack(config, load_server))
        output.note(f"Serving MCP on standard input and output. REST API of the stack: {addresses.api_url}")
        yield addresses


def _settings_for(config: "StackConfig", addresses: "StackAddresses") -> "ApiSettings":
    """Return the settings of a server that uses the stack; set up logging, and load the user's tools or the stack's."""
    from outlast.api.settings import ApiSettings  # noqa: PLC0415
    from outlast.deploy.local.plan import stack_environment  # noqa: PLC0415
    from outlast.deploy.local.state import find_running  # noqa: PLC0415
    from outlast.worker.logs import configure_logging  # noqa: PLC0415
    from outlast.workflows.tools.extensions import load_extensions  # noqa: PLC0415

    running = find_running(config.data_dir)
    absent = [name for name in config.tool_modules if running is not None and name not in running.tool_modules]
    if absent:
        raise CliError(
            f"The stack that runs on {config.data_dir} has not loaded {', '.join(absent)}, so its worker cannot run "
            "these tools. Stop it with `outlast down`, or use another data directory.",
            exit_code=ExitCode.USAGE,
        )
    os.environ.update(stack_environment(config, addresses))
    if running is not None:
        _use_servers_of(running, config)
    if running is not None and running.builtin_tools != "on":
        os.environ["OUTLAST_BUILTIN_TOOLS"] = running.builtin_tools
    settings = ApiSettings()
    configure_logging(settings.log_format, settings.log_level, settings.task_lines)
    if running is not None and not settings.tool_modules:
        load_extensions(running.tool_modules, running.folder)
    else:
        load_extensions(settings.tool_modules)
    return settings


def _use_servers_of(running: "StackState", config: "StackConfig") -> None:
    """Offer the MCP servers of the running stack. Raises `CliError` if the configuration has others."""
    theirs, own = running.mcp_servers_file, config.mcp_servers_file
    if own is not None and (theirs is None or theirs.resolve() != own.resolve()):
        flag = f"--mcp-servers {own}"
        if config.data_dir != DEFAULT_DATA_DIR:
            flag = f"--data-dir {config.data_dir} {flag}"
        which = "no MCP servers" if theirs is None else f"the MCP servers of {theirs}"
        raise CliError(
            f"The stack that runs on {config.data_dir} has {which}, so its worker cannot call those of {own}. Stop it "
            f"with `outlast down`, or start it with `outlast up {flag}`.",
            exit_code=ExitCode.USAGE,
        )
    if theirs is not None:
        os.environ["OUTLAST_MCP_SERVERS_FILE"] = str(theirs)


def connection_of(query: Mapping[str, str], token: str | None, settings: "ApiSettings") -> "LocalConnection":
    """Return the connection with these parameters. Raises `BadInput`."""
    from outlast.api.errors import BadRequest  # noqa: PLC0415
    from outlast.api.mcp.connections import selection_from  # noqa: PLC0415
    from outlast.api.mcp.stdio import LocalConnection  # noqa: PLC0415

    try:
        values = {name: [value] for name, value in query.items()}
        selection = selection_from(values, default_mode=settings.mode, environment=os.environ)
    except BadRequest as error:
        raise BadInput(str(error)) from error
    return LocalConnection(selection, SecretStr(token) if token else None)
