"""`outlast up`: the embedded stack, until Ctrl-C."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, JsonOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output
from outlast.cli.stack_options import (
    ActorsOption,
    ApiHostOption,
    ApiPortOption,
    BeginAnewOption,
    DetachOption,
    LogFormatOption,
    ReadyTimeoutOption,
    ReloadOption,
    RetentionDaysOption,
    SandboxPortOption,
    SiteDirOption,
    StackDataDirOption,
    TemporalHttpPortOption,
    TemporalMetricsPortOption,
    TemporalPortOption,
    TemporalUiPortOption,
    ToolsFromOption,
    WorkerMetricsPortOption,
)

if TYPE_CHECKING:
    from outlast.deploy.local.config import StackConfig
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Group
from rich.markup import escape
from rich.status import Status

from outlast.cli.show.tables import Column, Entries, FittingTable
from outlast.cli.show.wording import duration
from outlast.deploy.local.state import StackAddresses, StackEvent, StackEventKind

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
    """Shows the events of one stack: pass `tell` as its `on_event`, and wrap its start in a `with` block."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._began = time.monotonic()
        self._starting: list[str] = []
        self._is_up = False
        self._is_over = False
        self._status = Status("", console=output.err) if output.is_live and not output.as_json else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop_spinner()

    def is_up(self) -> None:
        """Everything is ready; events from now on are shown with their time."""
        self._is_up = True
        self.stop_spinner()

    def is_over(self) -> None:
        """Show no further events."""
        self._is_over = True

    def stop_spinner(self) -> None:
        """Stop the spinner, so that others can print."""
        if self._status is not None:
            self._status.stop()

    def tell(self, event: StackEvent) -> None:
        """Show one event."""
        if self._is_over:
            return
        if self._output.as_json:
            self._output.line({"event": event.kind.value, "component": event.component, "message": event.message})
            return
        if event.kind is StackEventKind.STARTING:
            self._starting.append(event.component)
        elif event.kind is StackEventKind.READY and event.component in self._starting:
            self._starting.remove(event.component)
        self._spin()
        if event.kind not in _SILENT:
            self._output.note(self._event_markup(event))

    def _spin(self) -> None:
        if self._status is None or self._is_up:
            return
        if self._starting:
            self._status.update(f"[dim]starting {', '.join(self._starting)}[/]")
            self._status.start()
        else:
            self._status.stop()

    def _event_markup(self, event: StackEvent) -> str:
        mark = _MARKS.get(event.kind, "[dim]·[/]")
        if not self._is_up and event.kind is StackEventKind.READY:
            return f"{mark} {event.component:<9} [dim]{duration(time.monotonic() - self._began)}[/]"
        now = f"[dim]{datetime.now().astimezone():%H:%M:%S}[/] " if self._is_up else ""
        return f"{now}{mark} {escape(event.message)}"


def address_table(addresses: StackAddresses, data_dir: Path) -> Group:
    """Where everything answers, and where its data is; the remarks go first when there is little room."""
    columns = (Column("", style="dim"), Column("", style="bold"), Column("", rank=1, style="dim"))
    rows = [(name, escape(address), remark) for name, address, remark in _addresses_with_remarks(addresses) if address]
    name_width = max(len(name) for name, _, _ in rows)
    folders = [("Data", data_dir), ("Logs", data_dir / "logs")]
    return Group(
        FittingTable(columns, rows),
        Entries([(f"[dim]{name:<{name_width}}[/]", escape(str(folder))) for name, folder in folders]),
    )


def _addresses_with_remarks(addresses: StackAddresses) -> list[tuple[str, str | None, str]]:
    platform = None if addresses.sandbox_url else addresses.apify_api_base_url
    return [
        ("API", addresses.api_url, "/docs describes it"),
        ("Temporal UI", addresses.temporal_ui_url, "every task is a workflow there"),
        ("Temporal", addresses.temporal_address, f"namespace {escape(addresses.temporal_namespace)}"),
        ("Sandbox", addresses.sandbox_url, "speaks the Apify API"),
        ("Apify", platform, "runs are paid by APIFY_TOKEN"),
        ("Docs site", addresses.docs_site_url, "for trying the crawler"),
        ("Metrics", addresses.metrics_url, "of the worker, for Prometheus"),
    ]


def up(
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    actors: ActorsOption = None,
    api_host: ApiHostOption = None,
    api_port: ApiPortOption = None,
    temporal_port: TemporalPortOption = None,
    temporal_ui_port: TemporalUiPortOption = None,
    temporal_http_port: TemporalHttpPortOption = None,
    temporal_metrics_port: TemporalMetricsPortOption = None,
    sandbox_port: SandboxPortOption = None,
    worker_metrics_port: WorkerMetricsPortOption = None,
    site_dir: SiteDirOption = None,
    tools_from: ToolsFromOption = None,
    reload: ReloadOption = False,
    retention_days: RetentionDaysOption = None,
    log_format: LogFormatOption = None,
    ready_timeout: ReadyTimeoutOption = None,
    detach: DetachOption = False,
    begin_anew: BeginAnewOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start the embedded stack and stay until Ctrl-C.

    Temporal, the sandbox platform, a worker and the API, as supervised processes: one that ends comes back, and all
    state is in the data directory. With APIFY_TOKEN set tools work on that platform instead of the sandbox, with
    TEMPORAL_ADDRESS on that Temporal server.
    """
    output = Output(as_json=as_json or log_format == "json")
    given = {
        "data_dir": data_dir,
        "actors": tuple(actors) if actors else None,
        "api_host": api_host,
        "api_port": api_port,
        "temporal_port": temporal_port,
        "temporal_ui_port": temporal_ui_port,
        "temporal_http_port": temporal_http_port,
        "temporal_metrics_port": temporal_metrics_port,
        "sandbox_port": sandbox_port,
        "worker_metrics_port": worker_metrics_port,
        "site_dir": site_dir,
        "tools_from": tools_from,
        "reload_tools": reload,
        "retention_days": retention_days,
        "log_format": log_format,
        "ready_timeout_seconds": ready_timeout,
        "begin_anew": begin_anew,
    }
    finish(output, lambda: (start if detach else serve)(output, given))


async def start(output: Output, given: Mapping[str, Any]) -> ExitCode:
    """Start the stack in the background and return when it is ready."""
    from outlast.deploy.local.errors import StackError  # noqa: PLC0415
    from outlast.deploy.local.external_services import look_outside  # noqa: PLC0415
    from outlast.deploy.local.plan import components_to_run, require_embedded  # noqa: PLC0415
    from outlast.deploy.local.shared_stack import start_detached  # noqa: PLC0415

    config = stack_config(given)
    await refuse_wrong_settings(config)
    try:
        require_embedded(components_to_run(config, look_outside(config.environment)))
        output.note(f"[dim]starting in the background; log: {config.data_dir / 'logs' / 'stack.log'}[/]")
        state = await start_detached(config)
    except (StackError, OSError) as error:
        raise stack_failure(error) from error
    where = "" if config.data_dir == DEFAULT_DATA_DIR else f" --data-dir {config.data_dir}"
    for note in state.port_notes:
        output.note(f"[yellow]![/] {note}")
    _announce(output, state, config, stops_with=f"`outlast down{where}` stops it")
    return ExitCode.OK


async def serve(output: Output, given: Mapping[str, Any]) -> ExitCode:
    """Run the stack until it is asked to stop."""
    # Costs 0.5 s (the Temporal SDK), which no other command must pay.
    from outlast.cli.commands.stack import StackReport  # noqa: PLC0415
    from outlast.deploy.local.errors import StackError  # noqa: PLC0415
    from outlast.deploy.local.stack import Stack  # noqa: PLC0415

    config = stack_config(given)
    await refuse_wrong_settings(config)
    with StackReport(output) as report:
        try:
            async with Stack(config, on_event=report.tell) as stack:
                report.is_up()
                _announce(output, stack, config)
                await stack.wait()
                output.note("\nStopping: the API first, Temporal last. Ctrl-C again does not wait.")
        except (StackError, OSError) as error:
            report.stop_spinner()
            raise stack_failure(error) from error
    return ExitCode.OK


def stack_config(given: Mapping[str, Any]) -> "StackConfig":
    """The configuration of flags and environment. Raises `BadInput`."""

    from outlast.deploy.local.config import StackConfig  # noqa: PLC0415

    try:
        return StackConfig.from_environment(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        raise BadInput(
            f"OUTLAST_{name.upper()}: {first['msg']}.", hint="`outlast up --help` lists the settings."
        ) from error


async def refuse_wrong_settings(config: "StackConfig") -> None:
    """Raise `BadInput`, a line for each setting that is wrong, before anything is started."""
    from outlast.cli.checks.check import Health  # noqa: PLC0415
    from outlast.cli.checks.components import Surroundings  # noqa: PLC0415
    from outlast.cli.checks.settings import check_all  # noqa: PLC0415

    checks = await check_all(Surroundings(config.data_dir, None, config.environment), config.actors)
    bad = [check for check in checks if check.health is Health.FAIL]
    if bad:
        raise BadInput("\n".join(check.finding for check in bad), hint=bad[0].advice)


def stack_failure(error: Exception) -> CliError:
    """A stack's error in the words and exit codes of the command line; its message says what to do."""
    from outlast.deploy.local.errors import (  # noqa: PLC0415
        DataDirectoryInUseError,
        PortTakenError,
        StackInterruptedError,
        ToolModuleError,
    )

    if isinstance(error, StackInterruptedError):
        return CliError("Interrupted; everything was stopped.", exit_code=ExitCode.INTERRUPTED)
    if isinstance(error, OSError):
        return CliError(
            f"{error.filename or 'The data directory'}: {error.strerror or error}.", exit_code=ExitCode.FAILED
        )
    refused = isinstance(error, DataDirectoryInUseError | PortTakenError | ToolModuleError)
    return CliError(str(error), exit_code=ExitCode.USAGE if refused else ExitCode.FAILED)


def _announce(output: Output, stack: Any, config: "StackConfig", stops_with: str = "Ctrl-C stops it") -> None:
    from outlast.cli.commands.stack import address_table  # noqa: PLC0415

    if output.as_json:
        document = {"event": "up", "data_dir": str(config.data_dir), "addresses": stack.addresses.model_dump()}
        output.line(document)
        return
    output.show("\n[bold green]Outlast is up.[/]\n")
    output.show(address_table(stack.addresses, config.data_dir))
    where = "" if config.data_dir == DEFAULT_DATA_DIR else f" --data-dir {config.data_dir}"
    if stack.addresses.sandbox_url:
        output.show(f"\nTry   [bold]outlast call outlast--sleeper '{{\"seconds\": 5}}'{where}[/]")
    output.show(f"[dim]{stops_with}; tasks that are open go on at the next `outlast up`.[/]\n")


def down(data_dir: StackDataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """Stop the stack that runs on the data directory, in order.

    Open tasks go on at the next `outlast up`.
    """
    output = Output(as_json=as_json)
    finish(output, lambda: stop(output, data_dir))


async def stop(output: Output, data_dir: Path) -> ExitCode:
    """Stop it and wait until it is gone; that none runs is no error."""
    from outlast.deploy.local.errors import StackError  # noqa: PLC0415
    from outlast.deploy.local.shared_stack import stop_running  # noqa: PLC0415 (psutil, httpx)

    try:
        state = await stop_running(data_dir)
    except (StackError, OSError) as error:
        raise stack_failure(error) from error
    if output.as_json:
        output.document({"stopped": state is not None, "pid": state.pid if state else None, "data_dir": str(data_dir)})
    elif state is None:
        output.show(f"No stack runs on {data_dir}.")
    else:
        output.show(f"[green]✓[/] Stopped the stack on {data_dir} (process {state.pid}).")
    return ExitCode.OK
