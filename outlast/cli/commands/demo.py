"""`outlast demo`: a real Actor as a durable task, from nothing to rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outlast.cli.commands.up import refuse_wrong_settings, stack_config, stack_failure
from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, JsonOption, Options, TokenOption
from outlast.cli.running import Context, finish
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

if TYPE_CHECKING:
    from pydantic import JsonValue

    from outlast.client import Task
    from outlast.deploy.local.state import StackAddresses

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
    from outlast.cli.show.stack_report import StackReport, address_table  # noqa: PLC0415
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
    from outlast.cli.connecting import connected  # noqa: PLC0415 (httpx)
    from outlast.cli.show.demo_display import show_demo  # noqa: PLC0415

    options = Options(url=addresses.api_url, token=chosen.token, data_dir=chosen.data_dir, as_json=output.as_json)
    async with connected(output, options) as context:
        context.options = Options(data_dir=chosen.data_dir, as_json=output.as_json)
        task = await _start_crawl(context, chosen, addresses.docs_site_url)
        return await show_demo(context, task, stays_up=stays_up)


async def _start_crawl(context: Context, chosen: DemoOptions, docs_site_url: str | None) -> "Task":
    """Start the call to demonstrate: of the shipped crawler where it exists, of Apify's own on Apify."""
    from outlast.client import NotFound  # noqa: PLC0415 (httpx)

    start_urls: JsonValue = [{"url": chosen.start_url or docs_site_url or _APIFY_SITE}]
    try:
        await context.client.tool(_SITE_CRAWLER)
    except NotFound:
        arguments = {"startUrls": start_urls, "maxCrawlPages": chosen.max_pages, "crawlerType": "cheerio"}
        return await context.client.start(_APIFY_CRAWLER, arguments, max_items=chosen.max_pages)
    return await context.client.start(_SITE_CRAWLER, {"startUrls": start_urls, "maxPages": chosen.max_pages})
