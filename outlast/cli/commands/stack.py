"""`outlast up`, `outlast dev` and `outlast down`: the embedded stack."""

import json
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer
from pydantic import ValidationError
from rich.console import Group
from rich.markup import escape
from rich.status import Status

from outlast.cli.options import DEFAULT_DATA_DIR, BadInput, CliError, ExitCode
from outlast.cli.runner import local_command
from outlast.cli.show.output import Column, Entries, FittingTable, Output
from outlast.cli.stack_options import DevFlags, StackDataDirOption, UpFlags
from outlast.deploy.local.state import StackAddresses, StackEvent, StackEventKind
from outlast.wording import duration

if TYPE_CHECKING:
    from outlast.deploy.local.config import StackConfig
    from outlast.deploy.local.stack import Stack
    from outlast.deploy.local.tool_reload import OwnTool

_MARKS = {
    StackEventKind.READY: "[green]✓[/]",
    StackEventKind.EXITED: "[red]✗[/]",
    StackEventKind.RESTARTING: "[yellow]↻[/]",
    StackEventKind.RELOADING: "[cyan]↻[/]",
    StackEventKind.RELOAD_FAILED: "[red]✗[/]",
    StackEventKind.PORT_CHANGED: "[yellow]![/]",
    StackEventKind.BEGIN_ANEW: "[yellow]![/]",
}
_SILENT = frozenset({StackEventKind.STARTING, StackEventKind.STOPPED})


class StackReport:
    """Shows the events of one stack: pass `show` as its `on_event`, and the report to `stack_errors`."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.stack: Stack | None = None
        """The stack, when it is up."""
        self._began = time.monotonic()
        self._starting: list[str] = []
        self._is_up = False
        self.is_over = False
        """Show no further events."""
        self._status = Status("", console=output.err) if output.is_live and not output.as_json else None

    def is_up(self, stack: "Stack | None" = None) -> None:
        """Show the following events with their time: everything of `stack` is ready."""
        self.stack = stack
        self._is_up = True
        self.stop_spinner()

    def announce(self) -> None:
        """Show what is special about the stack that is up."""

    def stop_spinner(self) -> None:
        """Stop the spinner, so that others can print."""
        if self._status is not None:
            self._status.stop()

    def show(self, event: StackEvent) -> None:
        """Show one event."""
        if self.is_over:
            return
        if self._output.as_json:
            self._output.line({"event": event.kind.value, "component": event.component, "message": event.message})
            return
        if event.kind is StackEventKind.STARTING:
            self._starting.append(event.component)
        elif event.kind is StackEventKind.READY and event.component in self._starting:
            self._starting.remove(event.component)
        if self._status is not None and not self._is_up:
            self._status.update(f"[dim]starting {', '.join(self._starting)}[/]")
            (self._status.start if self._starting else self._status.stop)()
        if event.kind not in _SILENT:
            mark = _MARKS.get(event.kind, "[dim]·[/]")
            now = f"[dim]{datetime.now().astimezone():%H:%M:%S}[/] " if self._is_up else ""
            text = f"{now}{mark} {escape(event.message)}"
            if not self._is_up and event.kind is StackEventKind.READY:
                text = f"{mark} {event.component:<9} [dim]{duration(time.monotonic() - self._began)}[/]"
            self._output.note(text)


def address_table(addresses: StackAddresses, data_dir: Path) -> Group:
    """Return a table of the addresses and folders of a stack; narrow terminals have no remarks."""
    named = [
        ("API", addresses.api_url, "documentation at /docs"),
        ("Temporal UI", addresses.temporal_ui_url, "shows every task as a workflow"),
        ("Temporal", addresses.temporal_address, f"namespace {escape(addresses.temporal_namespace)}"),
        ("Sandbox", addresses.sandbox_url, "has the Apify API"),
        ("Apify", None if addresses.sandbox_url else addresses.apify_api_base_url, "APIFY_TOKEN pays for runs"),
        ("Docs site", addresses.docs_site_url, "for trying the crawler"),
        ("Metrics", addresses.metrics_url, "of the worker, for Prometheus"),
    ]
    columns = (Column("", style="dim"), Column("", style="bold"), Column("", rank=1, style="dim"))
    rows = [(name, escape(address), remark) for name, address, remark in named if address]
    name_width = max(len(name) for name, _, _ in rows)
    folders = [("Data", data_dir), ("Logs", data_dir / "logs")]
    return Group(
        FittingTable(columns, rows),
        Entries([(f"[dim]{name:<{name_width}}[/]", escape(str(folder))) for name, folder in folders]),
    )


@local_command()
async def up(
    output: Output,
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when everything is ready; `outlast down` stops the stack.")
    ] = False,
    **given: Unpack[UpFlags],
) -> None:
    """Start the embedded stack and run until Ctrl-C.

    The stack is Temporal, the sandbox platform, a worker and the API, as supervised processes: a process that ends is
    restarted. All state is in the data directory. With APIFY_TOKEN, tools use that platform instead of the sandbox;
    with TEMPORAL_ADDRESS, that Temporal server.
    """
    output.as_json = output.as_json or given.get("log_format") == "json"
    config = await checked_config({"data_dir": data_dir, **given})
    await (_start if detach else _serve)(output, config)


async def _start(output: Output, config: "StackConfig") -> None:
    from outlast.deploy.local.config import look_outside  # noqa: PLC0415
    from outlast.deploy.local.plan import components_to_run, require_embedded  # noqa: PLC0415
    from outlast.deploy.local.shared_stack import start_detached  # noqa: PLC0415

    with stack_errors():
        require_embedded(components_to_run(config, look_outside(config.environment)))
        output.note(f"[dim]starting in the background; log: {config.data_dir / 'logs' / 'stack.log'}[/]")
        state = await start_detached(config)
    for note in state.port_notes:
        output.note(f"[yellow]![/] {note}")
    _announce(output, state, config, stops_with=f"`outlast down{data_dir_flag(config)}` stops it")


async def _serve(output: Output, config: "StackConfig") -> None:
    await serve_stack(output, config, StackReport(output))


async def serve_stack(output: Output, config: "StackConfig", report: StackReport) -> None:
    """Start a stack, and run it until it is asked to stop. `report` shows its events. Raises `CliError`."""
    from outlast.deploy.local.stack import Stack  # noqa: PLC0415 (0.5 s, the Temporal SDK)

    with stack_errors(report):
        async with Stack(config, on_event=report.show) as stack:
            report.is_up(stack)
            _announce(output, stack, config)
            report.announce()
            await stack.wait()
            output.note("\nStopping: the API first, Temporal last. Ctrl-C again does not wait.")


async def checked_config(given: Mapping[str, Any]) -> "StackConfig":
    """Return the configuration of flags and environment.

    Raises `BadInput`, with a line for each wrong setting, before anything is started.
    """
    from outlast.cli.checks.components import Surroundings, check_platform  # noqa: PLC0415
    from outlast.cli.checks.settings import (  # noqa: PLC0415
        check_actors,
        check_servers_file,
        check_store,
        check_variables,
    )
    from outlast.contracts.checks import Health  # noqa: PLC0415
    from outlast.deploy.local.config import StackConfig  # noqa: PLC0415

    try:
        config = StackConfig.from_environment(**{**given, "actors": tuple(given.get("actors") or ()) or None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0]).upper()
        raise BadInput(f"OUTLAST_{name}: {first['msg']}.", hint="`outlast up --help` lists the settings.") from error
    checks = [
        *check_variables(),
        await check_store(config.data_dir),
        await check_platform(Surroundings(config.data_dir, None, config.environment)),
        check_actors(config.actors),
        check_servers_file(config.mcp_servers_file, config.environment),
    ]
    bad = [check for check in checks if check.health is Health.FAIL]
    if bad:
        raise BadInput("\n".join(check.finding for check in bad), hint=bad[0].advice)
    return config


@contextmanager
def stack_errors(report: StackReport | None = None) -> Generator[None]:
    """Turn errors of a stack that leave the block into `CliError`; their messages contain the remedy."""
    from outlast.deploy.local.errors import (  # noqa: PLC0415
        DataDirectoryInUseError,
        PortTakenError,
        StackError,
        StackInterruptedError,
        ToolModuleError,
    )

    try:
        yield
    except (StackError, OSError) as error:
        if isinstance(error, StackInterruptedError):
            raise CliError("Interrupted; everything was stopped.", exit_code=ExitCode.INTERRUPTED) from error
        if isinstance(error, OSError):
            reason = f"{error.filename or 'The data directory'}: {error.strerror or error}."
            raise CliError(reason, exit_code=ExitCode.FAILED) from error
        refused = isinstance(error, DataDirectoryInUseError | PortTakenError | ToolModuleError)
        raise CliError(str(error), exit_code=ExitCode.USAGE if refused else ExitCode.FAILED) from error
    finally:
        if report is not None:
            report.stop_spinner()


def _announce(output: Output, stack: Any, config: "StackConfig", stops_with: str = "Ctrl-C stops it") -> None:
    if output.as_json:
        document = {"event": "up", "data_dir": str(config.data_dir), "addresses": stack.addresses.model_dump()}
        output.line(document)
        return
    output.show("\n[bold green]Outlast is up.[/]\n")
    output.show(address_table(stack.addresses, config.data_dir))
    if stack.addresses.sandbox_url and not config.tools_from:
        output.show(f"\nTry   [bold]outlast call outlast--sleeper '{{\"seconds\": 5}}'{data_dir_flag(config)}[/]")
    output.show(f"[dim]{stops_with}; open tasks continue at the next `outlast up`.[/]\n")


def data_dir_flag(config: "StackConfig") -> str:
    """Return the flag with the data directory of a stack, for commands that are shown; empty for the default."""
    return "" if config.data_dir == DEFAULT_DATA_DIR else f" --data-dir {config.data_dir}"


@local_command()
async def down(output: Output, data_dir: StackDataDirOption = DEFAULT_DATA_DIR) -> None:
    """Stop the stack on the data directory.

    Open tasks continue at the next `outlast up`. If no stack runs, this is not an error.
    """
    from outlast.deploy.local.shared_stack import stop_running  # noqa: PLC0415 (psutil, httpx)

    with stack_errors():
        state = await stop_running(data_dir)
    if output.as_json:
        output.document({"stopped": state is not None, "pid": state.pid if state else None, "data_dir": str(data_dir)})
    elif state is None:
        output.show(f"No stack runs on {data_dir}.")
    else:
        output.show(f"[green]✓[/] Stopped the stack on {data_dir} (process {state.pid}).")


_REPLACED = frozenset({"worker", "api"})


@local_command()
async def dev(
    output: Output,
    modules: Annotated[
        list[str], typer.Argument(metavar="MODULE...", help="Files, folders or modules with your tools.")
    ],
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    **given: Unpack[DevFlags],
) -> None:
    """Start the embedded stack with your tools, show how to call each, and reload them when a file changes.

    Open calls continue with the new tools. If a file cannot be loaded, the old tools keep running, and its error is
    shown with file and line. Ctrl-C stops everything.
    """
    output.as_json = output.as_json or given.get("log_format") == "json"
    tools_from = ",".join(modules)
    config = await checked_config({"data_dir": data_dir, "tools_from": tools_from, "reload_tools": True, **given})
    await serve_stack(output, config, ToolReport(output, config))


class ToolReport(StackReport):
    """Shows the events of a stack, its tools, and the tools that have changed after a reload."""

    def __init__(self, output: Output, config: "StackConfig") -> None:
        super().__init__(output)
        self._config = config
        self._shown: Mapping[str, OwnTool] = {}
        self._awaited: set[str] = set()
        """Processes that are being replaced."""

    def announce(self) -> None:
        """Show all tools."""
        self._show_tools("tools", f"Edit {self._config.tools_from}; changes are loaded when you save.")

    def show(self, event: StackEvent) -> None:
        """Show one event; after the last one of a reload, the tools that have changed."""
        super().show(event)
        if event.kind is StackEventKind.RELOADING:
            self._awaited = set(_REPLACED)
        elif event.kind is StackEventKind.READY and event.component in self._awaited:
            self._awaited.discard(event.component)
            if not self._awaited:
                self._show_tools("reloaded", "Reloaded: calls get the new tools.")

    def _show_tools(self, event: str, note: str) -> None:
        """Show the tools that are new or have changed since the last time, and the names of those that are gone."""
        if self.stack is None:
            return
        tools = {tool.name: tool for tool in self.stack.own_tools}
        changed = [tool for name, tool in tools.items() if self._shown.get(name) != tool]
        gone = [name for name in self._shown if name not in tools]
        self._shown = tools
        api_url = self.stack.addresses.api_url or ""
        if self._output.as_json:
            shown = [{**tool.model_dump(), **_ways(tool, api_url, self._config)} for tool in changed]
            self._output.line({"event": event, "tools": shown, "removed": gone})
            return
        for tool in changed:
            self._output.show(f"[bold]{escape(tool.name)}[/]  {escape(_first_line(tool.description))}")
            self._output.show(Entries([*_arguments(tool), *_addresses(tool, api_url, self._config)]))
            self._output.show()
        for name in gone:
            self._output.show(f"[bold]{escape(name)}[/]  [dim]was removed[/]")
        self._output.show(f"[green]✓[/] {escape(note)}")


def _arguments(tool: "OwnTool") -> list[tuple[str, ...]]:
    required = _required(tool)
    properties: Any = tool.input_schema.get("properties") or {}
    rows: list[tuple[str, ...]] = []
    for name, schema in properties.items():
        facts = (_kind(schema), "" if name in required else "optional")
        text = ", ".join(fact for fact in facts if fact)
        rows.append((f"  {escape(name)}", escape(f"{text}. {schema.get('description', '')}".strip(". ") or "any")))
    return rows


def _required(tool: "OwnTool") -> list[str]:
    names: Any = tool.input_schema.get("required") or []
    return [str(name) for name in names]


def _kind(schema: Mapping[str, Any]) -> str:
    named = schema.get("type")
    if isinstance(named, str):
        return named
    kinds: Sequence[Mapping[str, Any]] = schema.get("anyOf") or []
    return " or ".join(str(one.get("type", "object")) for one in kinds) or "object"


def _ways(tool: "OwnTool", api_url: str, config: "StackConfig") -> dict[str, str]:
    """Return the ways to call a tool: a command, the URL of the REST API, and that of an MCP server with it alone."""
    values = "".join(f" -a {name}=..." for name in _required(tool))
    return {
        "command": f"outlast call {tool.name}{values}{data_dir_flag(config)}",
        "rest_url": f"{api_url}/v1/tools/{tool.name}/call",
        "mcp_url": f"{api_url}/mcp?tools={tool.name}",
    }


def _addresses(tool: "OwnTool", api_url: str, config: "StackConfig") -> list[tuple[str, ...]]:
    ways, required = _ways(tool, api_url, config), _required(tool)
    example = json.dumps({"arguments": dict.fromkeys(required, "...")})
    return [
        ("  [dim]call[/]", escape(ways["command"])),
        ("  [dim]REST[/]", escape(f"POST {ways['rest_url']} {example}")),
        ("  [dim]MCP[/]", escape(ways["mcp_url"])),
    ]


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
