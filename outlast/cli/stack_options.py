"""Flags of the commands that start a stack or offer MCP, each with its environment variable."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import typer

from outlast.cli.options import time_option

_PORTS = "Ports (a default that is in use is replaced, one that you set is not; 0 is any free port)"
PANEL_OF_CONNECTION = "What the connection offers"

StackDataDirOption = Annotated[
    Path, typer.Option("--data-dir", envvar="OUTLAST_DATA_DIR", help="Directory with the state of the stack.")
]
ActorFoldersOption = Annotated[
    list[Path] | None,
    typer.Option(
        envvar="OUTLAST_ACTORS",
        exists=True,
        file_okay=False,
        help="Folder with one or more Actors of your own, for the sandbox. Repeatable.",
    ),
]
ToolsFromOption = Annotated[
    str | None,
    typer.Option(
        "--tools-from",
        envvar="OUTLAST_TOOLS_FROM",
        metavar="MODULE[,MODULE]",
        help="Python modules with tools of your own, by name, file or folder; entry-points for installed packages.",
    ),
]
McpServersOption = Annotated[
    Path | None,
    typer.Option(
        "--mcp-servers",
        envvar="OUTLAST_MCP_SERVERS_FILE",
        metavar="FILE",
        help="File with MCP servers whose tools are offered, in the format of Claude, Cursor or VS Code.",
    ),
]


def servers_file_of(given: Path | None, data_dir: Path) -> Path | None:
    """Return the file of MCP servers: the given one, otherwise that of the stack on this directory, if it runs."""
    from outlast.client.http import running_stack  # noqa: PLC0415 (psutil)

    state = running_stack(data_dir) if given is None else None
    return given if state is None else state.mcp_servers_file


BeginAnewOption = Annotated[
    bool,
    typer.Option(
        "--begin-anew",
        help="If parts of the data directory are missing or damaged, move the old ones aside and start empty.",
    ),
]


def _port(what: str, default: int, name: str) -> Any:
    return typer.Option(
        envvar=f"OUTLAST_{name.upper()}_PORT",
        min=0,
        max=65535,
        metavar="PORT",
        show_default=str(default),
        help=f"Port of {what}.",
        rich_help_panel=_PORTS,
    )


ReadyTimeoutOption = Annotated[
    float | None,
    time_option(
        "Maximum time until a part is ready; increase it for a slow machine.",
        "--ready-timeout",
        envvar="OUTLAST_READY_TIMEOUT",
        show_default="60s",
    ),
]


class DemoFlags(TypedDict, total=False):
    """Flags of `demo`, named as in `StackConfig`."""

    actors: ActorFoldersOption
    api_port: Annotated[int | None, _port("the API", 8400, "api")]
    temporal_port: Annotated[int | None, _port("the Temporal server", 7233, "temporal")]
    temporal_ui_port: Annotated[int | None, _port("the Temporal UI", 8233, "temporal_ui")]
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option(
            envvar="OUTLAST_LOG_FORMAT", help="Form of the logs; json also prints events of this command as JSON."
        ),
    ]
    ready_timeout_seconds: ReadyTimeoutOption
    begin_anew: BeginAnewOption


class DevFlags(DemoFlags, total=False):
    """Flags of `dev`, named as in `StackConfig`."""

    mcp_servers: McpServersOption
    api_host: Annotated[
        str | None,
        typer.Option(
            envvar="OUTLAST_API_HOST",
            show_default="127.0.0.1",
            help="Address that the API listens on. For other machines to reach it, set OUTLAST_API_KEYS too.",
        ),
    ]
    temporal_http_port: Annotated[int | None, _port("Temporal's HTTP API", 7243, "temporal_http")]
    temporal_metrics_port: Annotated[int | None, _port("Temporal's metrics", 7253, "temporal_metrics")]
    sandbox_port: Annotated[int | None, _port("the sandbox platform", 8401, "sandbox")]
    worker_metrics_port: Annotated[int | None, _port("the worker's metrics", 8402, "worker_metrics")]
    site_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="OUTLAST_SITE_DIR",
            exists=True,
            file_okay=False,
            help="Folder of Markdown that the sandbox serves as a site.",
            show_default="this project's docs",
        ),
    ]
    retention_days: Annotated[
        int | None,
        typer.Option(
            envvar="OUTLAST_RETENTION_DAYS",
            min=1,
            show_default="30",
            help="How long the embedded Temporal server keeps ended tasks with their results.",
        ),
    ]


class UpFlags(DevFlags, total=False):
    """Flags of `up`, named as in `StackConfig`."""

    tools_from: ToolsFromOption
    reload_tools: Annotated[
        bool,
        typer.Option(
            "--reload", help="Restart worker and API when the files of --tools-from change; running tasks continue."
        ),
    ]


def _offer(help_text: str) -> Any:
    return typer.Option(help=help_text, rich_help_panel=PANEL_OF_CONNECTION)


class ConnectionFlags(TypedDict, total=False):
    """Parameters of an MCP connection."""

    mode: Annotated[str | None, _offer("Mode of the tools: default, openai (also: apps, true) or apify.")]
    ui: Annotated[
        str | None, _offer("In mode apify: apps, default or auto, whether tools have widgets. Otherwise as --mode.")
    ]
    tools: Annotated[str | None, _offer("Categories, tags (tag:NAME), tools and Actors to offer, comma-separated.")]
    actors: Annotated[str | None, _offer("Actors to offer as additional tools, comma-separated.")]
    payment: Annotated[str | None, _offer("Payment of calls: skyfire, in mode apify also x402.")]
    telemetry_enabled: Annotated[
        str | None,
        _offer("In mode apify: true or false, whether report-problem is offered. Nothing is sent to anybody."),
    ]


def connection_query(flags: ConnectionFlags) -> dict[str, str]:
    """Return the parameters that are given, as they are in the query of an address."""
    return {name.replace("_", "-"): str(value) for name, value in flags.items() if value is not None}
