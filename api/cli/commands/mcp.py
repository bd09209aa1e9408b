"""`outlast mcp`: MCP on standard input and output, for clients that start their servers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outlast.api.cli.commands.up import StackDataDirOption, ToolsFromOption, stack_config, stack_failure
from outlast.api.cli.errors import BadInput, CliError, ExitCode
from outlast.api.cli.options import DEFAULT_DATA_DIR
from outlast.api.cli.running import finish
from outlast.api.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.api.mcp.stdio import LocalConnection
    from outlast.api.settings import ApiSettings

_CONNECTION = "What this connection is offered"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says about the connection."""

    query: Mapping[str, str]
    token: str | None


def mcp(
    ui: Annotated[
        str | None, typer.Option(help="Mode: default, or openai (also: apps, true).", rich_help_panel=_CONNECTION)
    ] = None,
    tools: Annotated[
        str | None,
        typer.Option(help="Categories, tools and Actors, comma-separated.", rich_help_panel=_CONNECTION),
    ] = None,
    actors: Annotated[
        str | None,
        typer.Option(help="Actors to offer as tools too, comma-separated.", rich_help_panel=_CONNECTION),
    ] = None,
    payment: Annotated[
        str | None, typer.Option(help="Who pays for Actors: skyfire.", rich_help_panel=_CONNECTION)
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="OUTLAST_TOKEN",
            help="API key, or your Apify token, when the stack asks for one. Better in the environment.",
            rich_help_panel=_CONNECTION,
        ),
    ] = None,
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    actor_dir: Annotated[
        list[Path] | None,
        typer.Option(
            envvar="OUTLAST_ACTORS",
            exists=True,
            file_okay=False,
            help="Folder of an Actor of your own, or of several, for the sandbox. Repeatable.",
        ),
    ] = None,
    tools_from: ToolsFromOption = None,
) -> None:
    """Serve MCP on standard input and output, for clients such as Claude Desktop that start their servers.

    Uses the stack that runs on the data directory, or starts one: that stays for as long as any client uses it. Tasks
    go on whatever happens to the client. Everything but the protocol is written to standard error.
    """
    given = {"ui": ui, "tools": tools, "actors": actors, "payment": payment}
    wishes = Wishes({name: value for name, value in given.items() if value is not None}, token)
    folders = tuple(actor_dir) if actor_dir else None
    stack = {"data_dir": data_dir, "actors": folders, "tools_from": tools_from}
    finish(Output(as_json=False), lambda: serve(wishes, stack))


async def serve(wishes: Wishes, given: Mapping[str, object]) -> ExitCode:
    """Serve one client until it closes standard input."""
    # Cost a second (the Temporal and the MCP SDK), which no other command must pay.
    from outlast.api.errors import ApiError  # noqa: PLC0415
    from outlast.api.mcp.stdio import serve_stdio  # noqa: PLC0415
    from outlast.api.services import build_services  # noqa: PLC0415
    from outlast.api.settings import ApiSettings  # noqa: PLC0415
    from outlast.deploy.local.errors import StackError  # noqa: PLC0415
    from outlast.deploy.local.on_demand import used_stack  # noqa: PLC0415
    from outlast.deploy.local.plan import stack_environment  # noqa: PLC0415
    from outlast.worker.connection import connect  # noqa: PLC0415
    from outlast.worker.logs import configure_logging  # noqa: PLC0415
    from outlast.worker.telemetry import build_runtime  # noqa: PLC0415
    from outlast.workflows.tools.extensions import ExtensionError, load_extensions  # noqa: PLC0415

    config = stack_config(given)
    try:
        async with used_stack(config) as addresses:
            os.environ.update(stack_environment(config, addresses))
            settings = ApiSettings()
            configure_logging(settings.log_format, settings.log_level)
            load_extensions(settings.tool_modules)
            services = build_services(settings, await connect(settings, build_runtime(), lazy=True))
            await serve_stdio(services, connection_of(wishes, settings))
    except StackError as error:
        raise stack_failure(error) from error
    except (ApiError, ExtensionError) as error:
        raise CliError(str(error), exit_code=ExitCode.USAGE) from error
    return ExitCode.OK


def connection_of(wishes: Wishes, settings: "ApiSettings") -> "LocalConnection":
    """The one connection, from its flags. Raises `BadInput`."""
    from pydantic import SecretStr  # noqa: PLC0415

    from outlast.api.errors import BadRequest  # noqa: PLC0415
    from outlast.api.mcp.connections import selection_from  # noqa: PLC0415
    from outlast.api.mcp.stdio import LocalConnection  # noqa: PLC0415

    try:
        selection = selection_from(wishes.query, default_mode=settings.mode)
    except BadRequest as error:
        raise BadInput(str(error)) from error
    return LocalConnection(selection, SecretStr(wishes.token) if wishes.token else None)
