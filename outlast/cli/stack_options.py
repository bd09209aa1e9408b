"""The options of the commands that start a stack, each with its environment variable."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from outlast.cli.args import parse_duration

_PORTS = "Ports (a default that is taken gives way; one asked for is used or refused; 0 is any free one)"

StackDataDirOption = Annotated[
    Path, typer.Option("--data-dir", envvar="OUTLAST_DATA_DIR", help="Where everything is kept.")
]
ActorsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--actors",
        envvar="OUTLAST_ACTORS",
        exists=True,
        file_okay=False,
        help="Folder of an Actor of your own, or of several, for the sandbox. Repeatable.",
    ),
]
ReadyTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--ready-timeout",
        envvar="OUTLAST_READY_TIMEOUT",
        parser=parse_duration,
        metavar="TIME",
        show_default="60s",
        help="Give up when a part is not ready after this; more for a slow machine.",
    ),
]
ToolsFromOption = Annotated[
    str | None,
    typer.Option(
        "--tools-from",
        envvar="OUTLAST_TOOLS_FROM",
        metavar="MODULE[,MODULE]",
        help="Python modules with tools of your own, by name or file.",
    ),
]
ReloadOption = Annotated[
    bool,
    typer.Option("--reload", help="Restart worker and API when the files of --tools-from change; running tasks go on."),
]
LogFormatOption = Annotated[
    Literal["text", "json"] | None,
    typer.Option(envvar="OUTLAST_LOG_FORMAT", help="Form of the logs; json also prints this command's events as JSON."),
]


def _port_option(what: str, default: int, name: str) -> Any:
    return typer.Option(
        envvar=f"OUTLAST_{name.upper()}_PORT",
        min=0,
        max=65535,
        metavar="PORT",
        show_default=str(default),
        help=f"Port of {what}.",
        rich_help_panel=_PORTS,
    )


ApiPortOption = Annotated[int | None, _port_option("the API", 8400, "api")]
TemporalPortOption = Annotated[int | None, _port_option("the Temporal server", 7233, "temporal")]
TemporalUiPortOption = Annotated[int | None, _port_option("the Temporal UI", 8233, "temporal_ui")]
ApiHostOption = Annotated[
    str | None,
    typer.Option(
        envvar="OUTLAST_API_HOST",
        show_default="127.0.0.1",
        help="Address that the API listens on. Beyond loopback, set OUTLAST_API_KEYS.",
    ),
]
TemporalHttpPortOption = Annotated[int | None, _port_option("Temporal's HTTP API", 7243, "temporal_http")]
TemporalMetricsPortOption = Annotated[int | None, _port_option("Temporal's metrics", 7253, "temporal_metrics")]
SandboxPortOption = Annotated[int | None, _port_option("the sandbox platform", 8401, "sandbox")]
WorkerMetricsPortOption = Annotated[int | None, _port_option("the worker's metrics", 8402, "worker_metrics")]
SiteDirOption = Annotated[
    Path | None,
    typer.Option(
        envvar="OUTLAST_SITE_DIR",
        exists=True,
        file_okay=False,
        help="Folder of Markdown that the sandbox serves as a site.",
        show_default="this project's docs",
    ),
]
RetentionDaysOption = Annotated[
    int | None,
    typer.Option(
        envvar="OUTLAST_RETENTION_DAYS",
        min=1,
        show_default="30",
        help="How long the embedded Temporal server keeps ended tasks with their results.",
    ),
]
BeginAnewOption = Annotated[
    bool,
    typer.Option(
        "--begin-anew",
        help="When parts of the data directory are missing or damaged, move the old ones aside and begin with nothing.",
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", "-d", help="Return when everything is ready; `outlast down` stops it.")
]
