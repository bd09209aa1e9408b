"""`outlast demo`: a real Actor as a durable task, from nothing to rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import JsonValue

from outlast.cli.commands.stack import refuse_wrong_settings, stack_config, stack_failure
from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, JsonOption, Options, TokenOption
from outlast.cli.runner import Context, connected, finish
from outlast.cli.show.output import Output
from outlast.cli.stack_options import (
    ActorsOption,
    ApiPortOption,
    BeginAnewOption,
    LogFormatOption,
    ReadyTimeoutOption,
    StackDataDirOption,
    TemporalPortOption,
    TemporalUiPortOption,
)
from outlast.client import NotFound, Task

if TYPE_CHECKING:
    from outlast.deploy.local.state import StackAddresses
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from rich.markup import escape

from outlast.cli.commands.call import see_through
from outlast.cli.errors import CliError
from outlast.cli.show.follow_task import summary_line
from outlast.cli.show.tables import Column, FittingTable
from outlast.cli.show.wording import counted, one_line, styled_status
from outlast.client import TaskAnswer
from outlast.paths import checkout

_TOOL = "get-dataset-items"
_MAX_CALLS = 10
_WAIT_SECONDS = 60


class RowPage(BaseModel):
    """The answer of `get-dataset-items`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    items: list[dict[str, Any]] = []
    total_item_count: int = 0
    next_offset: int | None = None


async def fetch_rows(
    context: Context, dataset_id: str, *, fields: tuple[str, ...], limit: int
) -> tuple[list[dict[str, Any]], int]:
    """The first rows of a dataset, `limit` at most, and how many it has."""
    rows: list[dict[str, Any]] = []
    page = RowPage(next_offset=0)
    for _ in range(_MAX_CALLS):
        if page.next_offset is None or len(rows) >= limit:
            break
        wanted = limit - len(rows)
        arguments = {"datasetId": dataset_id, "offset": page.next_offset, "limit": wanted, "fields": list(fields)}
        page = await _call(context, arguments)
        rows += page.items
        if not page.items:
            break
    return rows, page.total_item_count


async def _call(context: Context, arguments: dict[str, Any]) -> RowPage:
    task = await context.client.start(_TOOL, arguments)
    answer = await context.client.result(task.id, wait_seconds=_WAIT_SECONDS)
    structured = answer.result.structured if answer.result and not answer.result.is_error else None
    return RowPage.model_validate(structured or {})


_FIELDS = ("url", "title", "metadata", "text", "error")
_MAX_ROWS = 50
_COLUMNS = (
    Column("PAGE", least=20, most=36, style="cyan"),
    Column("TITLE", rank=1, least=12, most=24),
    Column("WORDS", rank=3, justify="right"),
    Column("TEXT", rank=2, least=12),
)


async def show_demo(context: Context, task: Task, *, stays_up: bool) -> ExitCode:
    """Follow `task` and show its rows. Only a completed task with rows is a success."""
    output = context.output
    output.note()
    answer = await see_through(context, task)
    run = _run_of(answer)
    rows, total = await fetch_rows(context, run["dataset"], fields=_FIELDS, limit=_MAX_ROWS) if run else ([], 0)
    works = answer.result is not None and not answer.result.is_error and bool(rows)
    if output.as_json:
        document = answer.document()
        output.document({"ok": works, "task": document["task"], "run": run, "rows": rows, "row_count": total})
        return ExitCode.OK if works else ExitCode.FAILED
    output.note(summary_line(answer.task) + "\n")
    if rows:
        output.show(row_table(rows))
        output.show(f"[dim]{counted(total, 'row')} in dataset {escape(run['dataset'])}[/]\n")
    _show_whereabouts(context, answer, run, stays_up=stays_up)
    if not works:
        output.error(_failure(context, answer))
    return ExitCode.OK if works else ExitCode.FAILED


def _run_of(answer: TaskAnswer) -> dict[str, str]:
    """The run's id, status and dataset, as the tool answered; empty when no run came of the call."""
    structured: dict[str, Any] = dict(answer.result.structured or {}) if answer.result else {}
    run = answer.task.run
    if "runId" in structured:
        dataset = structured["storages"]["datasets"]["default"]["id"]
        return {"id": structured["runId"], "status": structured["status"], "dataset": dataset}
    return {"id": run.run_id, "status": run.status, "dataset": run.dataset_id} if run else {}


def row_table(rows: list[dict[str, Any]]) -> FittingTable:
    """The rows as a table: of few columns on a narrow terminal."""
    return FittingTable(_COLUMNS, [(escape(_short_address(str(row.get("url", "")))), *_cells(row)) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, str, str]:
    if row.get("error"):
        return "", "", f"[red]{escape(one_line(str(row['error'])))}[/]"
    text = one_line(str(row.get("text") or ""))
    title = one_line(str(row.get("title") or _metadata_title(row) or ""))
    beginning = text.removeprefix(title).strip()[:200]
    return escape(title), f"{len(text.split()):,}", f"[dim]{escape(beginning)}[/]"


def _metadata_title(row: dict[str, Any]) -> Any:
    """Where Apify's own crawler has the title."""
    metadata: Any = row.get("metadata")
    return metadata.get("title") if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _short_address(url: str) -> str:
    """A page's path, or its whole address when that is all there is."""
    parts = urlsplit(url)
    return (parts.path + (f"?{parts.query}" if parts.query else "")) if parts.path not in ("", "/") else url


def _show_whereabouts(context: Context, answer: TaskAnswer, run: dict[str, str], *, stays_up: bool) -> None:
    task, output, command = answer.task, context.output, context.options.command
    sheet = [("task", f"[bold]{escape(task.id)}[/]")]
    sheet += [("run", f"{escape(run['id'])}  {styled_status(run['status'])}")] if run else []
    sheet += [("workflow", escape(task.workflow_url))] if task.workflow_url else []
    output.sheet(sheet)
    output.note()
    if stays_up:
        output.note("Look closer while the stack is up:")
    else:
        data_dir = context.options.data_dir
        in_checkout = checkout() is not None and data_dir == DEFAULT_DATA_DIR
        up = "make up" if in_checkout else command("up")
        output.note(f"The stack stops now; the task stays in {escape(str(data_dir))}.")
        output.note(f"[bold]{escape(up)}[/] brings the stack back with this task in it; then:")
    output.command(command(f"tasks get {task.id}"))
    output.command(command(f"tasks result {task.id}"))


def _failure(context: Context, answer: TaskAnswer) -> CliError:
    error = answer.result.error if answer.result else None
    logs = context.options.data_dir / "logs"
    return CliError(
        error.message if error else "The task gave no rows.",
        exit_code=ExitCode.FAILED,
        hint=(error.hint if error else None) or f"The logs in {logs} say more; `outlast doctor` looks at every part.",
    )


_SITE_CRAWLER = "outlast--site-crawler"
_APIFY_CRAWLER = "apify--website-content-crawler"
_APIFY_SITE = "https://docs.apify.com/academy/web-scraping-for-beginners"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command."""

    data_dir: Path
    token: str | None
    start_url: str | None
    max_pages: int
    keep: bool


def demo(
    start_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to crawl.", show_default="the site that the stack serves")
    ] = None,
    max_pages: Annotated[int, typer.Option(min=1, help="Pages to crawl at most.")] = 20,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running until Ctrl-C.")] = False,
    data_dir: StackDataDirOption = DEFAULT_DATA_DIR,
    actors: ActorsOption = None,
    api_port: ApiPortOption = None,
    temporal_port: TemporalPortOption = None,
    temporal_ui_port: TemporalUiPortOption = None,
    log_format: LogFormatOption = None,
    ready_timeout: ReadyTimeoutOption = None,
    begin_anew: BeginAnewOption = False,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Crawl a site with a real Actor, as a durable task, and show the rows.

    Starts the stack on the data directory, or joins the one that runs there already.
    """
    output = Output(as_json=as_json or log_format == "json")
    given = {
        "data_dir": data_dir,
        "actors": tuple(actors) if actors else None,
        "api_port": api_port,
        "temporal_port": temporal_port,
        "temporal_ui_port": temporal_ui_port,
        "log_format": log_format,
        "ready_timeout_seconds": ready_timeout,
        "begin_anew": begin_anew,
    }
    chosen = DemoOptions(data_dir, token, start_url, max_pages, keep)
    finish(output, lambda: run_demo(output, chosen, given))


async def run_demo(output: Output, chosen: DemoOptions, given: Mapping[str, Any]) -> ExitCode:
    """Demonstrate on the running stack, or on one that is started for it."""
    from outlast.client.connection import running_stack  # noqa: PLC0415 (httpx)

    output.note("[bold]Outlast demo[/]: a real Actor, run as a durable task\n")
    running = running_stack(chosen.data_dir)
    if running is not None:
        output.note(f"[green]✓[/] joined the stack that runs on {chosen.data_dir} [dim](process {running.pid})[/]")
        return await demonstrate(output, chosen, running.addresses, stays_up=True)
    return await _on_own_stack(output, chosen, given)


async def _on_own_stack(output: Output, chosen: DemoOptions, given: Mapping[str, Any]) -> ExitCode:
    from outlast.cli.commands.stack import StackReport, address_table  # noqa: PLC0415
    from outlast.deploy.local.errors import StackError  # noqa: PLC0415 (the Temporal SDK)
    from outlast.deploy.local.stack import Stack  # noqa: PLC0415
    from outlast.deploy.local.state import ignore_event  # noqa: PLC0415

    config = stack_config(given)
    await refuse_wrong_settings(config)
    with StackReport(output) as report:
        try:
            async with Stack(config, on_event=ignore_event if output.as_json else report.tell) as stack:
                report.is_up()
                code = await demonstrate(output, chosen, stack.addresses, stays_up=chosen.keep)
                if chosen.keep:
                    output.note("\n[bold green]The stack stays up[/] until Ctrl-C.\n")
                    output.note(address_table(stack.addresses, config.data_dir))
                    await stack.wait()
                report.is_over()
        except (StackError, OSError) as error:
            report.stop_spinner()
            raise stack_failure(error) from error
    return code


async def demonstrate(output: Output, chosen: DemoOptions, addresses: "StackAddresses", *, stays_up: bool) -> ExitCode:
    """Crawl, and show what came of it."""

    options = Options(url=addresses.api_url, token=chosen.token, data_dir=chosen.data_dir, as_json=output.as_json)
    async with connected(output, options) as context:
        context.options = Options(data_dir=chosen.data_dir, as_json=output.as_json)
        task = await _start_crawl(context, chosen, addresses.docs_site_url)
        return await show_demo(context, task, stays_up=stays_up)


async def _start_crawl(context: Context, chosen: DemoOptions, docs_site_url: str | None) -> "Task":
    """Start the call to demonstrate: of the shipped crawler where it exists, of Apify's own on Apify."""

    start_urls: JsonValue = [{"url": chosen.start_url or docs_site_url or _APIFY_SITE}]
    try:
        await context.client.tool(_SITE_CRAWLER)
    except NotFound:
        arguments = {"startUrls": start_urls, "maxCrawlPages": chosen.max_pages, "crawlerType": "cheerio"}
        return await context.client.start(_APIFY_CRAWLER, arguments, max_items=chosen.max_pages)
    return await context.client.start(_SITE_CRAWLER, {"startUrls": start_urls, "maxPages": chosen.max_pages})
