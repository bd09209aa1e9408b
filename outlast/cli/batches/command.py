"""`outlast batch`: start one tool for many inputs, look at it, get its results, stop it and go on."""

from collections.abc import Callable, Coroutine
from typing import Any

import typer

from outlast.cli.batches import options as given
from outlast.cli.batches.asked import Asked, Changes, ItemLimits, Reusing, SaveTo, Source
from outlast.cli.errors import ExitCode
from outlast.cli.options import (
    DEFAULT_DATA_DIR,
    CsvSafeOption,
    DataDirOption,
    JsonOption,
    Options,
    TokenOption,
    UrlOption,
)
from outlast.cli.running import Context, run_action

app = typer.Typer(no_args_is_help=True, help="Call one tool for many inputs; look at it, get its results, go on.")


def _run(options: Options, name: str, *arguments: Any, **more: Any) -> None:
    """Run an action of `carrying`, which is loaded by then: it needs httpx."""

    async def action(context: Context) -> ExitCode:
        from outlast.cli.batches import carrying  # noqa: PLC0415

        carry_out: Callable[..., Coroutine[None, None, ExitCode]] = getattr(carrying, name)
        return await carry_out(context, *arguments, **more)

    run_action(options, action)


@app.command()
def run(
    tool: given.ToolArgument,
    file: given.FileArgument = None,
    arg: given.PairOption = None,
    mapping: given.MapOption = None,
    key: given.KeyOption = None,
    delimiter: given.DelimiterOption = None,
    output: given.OutputOption = None,
    dataset: given.DatasetOption = None,
    concurrency: given.ConcurrencyOption = None,
    budget: given.BudgetOption = None,
    max_usd: given.MaxUsdOption = None,
    max_items: given.MaxItemsOption = None,
    max_run_time: given.MaxRunTimeOption = None,
    until: given.UntilOption = None,
    deadline: given.DeadlineOption = None,
    stop: given.StopOption = None,
    retry: given.RetryOption = None,
    reuse: given.ReuseOption = None,
    refresh: given.RefreshOption = False,
    order: given.RowOrderOption = None,
    mode: given.ModeOption = None,
    name: given.NameOption = None,
    again: given.AgainOption = False,
    save: given.SaveOption = None,
    csv_safe: CsvSafeOption = True,
    detach: given.DetachOption = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Call a tool for each item of a file, show the progress, then the outcome.

    The batch is durable: Ctrl-C stops the watching, not the batch, and the same command meets it again.

    Examples:
      outlast batch run outlast/sleeper items.jsonl --concurrency 25 --budget 20
      outlast batch run outlast/site-crawler pages.csv -m startUrls.0.url=page --key page -o results.csv
    """
    source = Source(file, output, dataset, tuple(mapping or ()), key, delimiter)
    limits = ItemLimits(max_usd, max_items, max_run_time, deadline, tuple(until or ()))
    changes = Changes(concurrency, budget, tuple(stop or ()))
    reusing = Reusing(reuse, refresh)
    asked = Asked(tool, source, tuple(arg or ()), limits, changes, tuple(retry or ()), order, mode, name, reusing)
    _run(
        Options(url, token, data_dir, as_json),
        "run_batch",
        asked,
        again=again,
        save=SaveTo.at(save, csv_safe=csv_safe),
        detach=detach,
    )


@app.command()
def ls(
    only_open: given.OpenOption = False,
    limit: given.LimitOption = 20,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """List your batches: open ones first, then those that ended last."""
    _run(Options(url, token, data_dir, as_json), "list_batches", only_open=only_open, limit=limit)


@app.command()
def show(
    batch_id: given.BatchArgument,
    watch: given.WatchOption = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Show a batch: counts, rate, time left, money."""
    _run(Options(url, token, data_dir, as_json), "show_batch", batch_id, watch=watch)


@app.command()
def results(
    batch_id: given.BatchArgument,
    status: given.StatusOption = None,
    rows: given.RowsOption = None,
    follow: given.FollowOption = False,
    as_csv: given.CsvOption = False,
    save: given.SaveOption = None,
    csv_safe: CsvSafeOption = True,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Print the results so far: a line of JSON for each item that has ended."""
    options = Options(url, token, data_dir)
    saved = SaveTo.at(save, csv_safe=csv_safe)
    _run(options, "print_results", batch_id, status, rows, follow=follow, as_csv=as_csv, csv_safe=csv_safe, save=saved)


@app.command()
def cancel(
    batch_id: given.BatchArgument,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Start nothing more of a batch, and cancel what is under way."""
    _run(Options(url, token, data_dir, as_json), "cancel_batch", batch_id)


@app.command()
def retry(
    batch_id: given.BatchArgument,
    category: given.CategoryOption = None,
    concurrency: given.ConcurrencyOption = None,
    budget: given.BudgetOption = None,
    stop: given.StopOption = None,
    detach: given.DetachOption = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Run the failed items of a batch that has ended again."""
    changes, categories = Changes(concurrency, budget, tuple(stop or ())), tuple(category or ())
    _run(Options(url, token, data_dir, as_json), "go_on", batch_id, changes, categories, detach=detach)


@app.command()
def resume(
    batch_id: given.BatchArgument,
    concurrency: given.ConcurrencyOption = None,
    budget: given.BudgetOption = None,
    stop: given.StopOption = None,
    detach: given.DetachOption = False,
    as_json: JsonOption = False,
    url: UrlOption = None,
    token: TokenOption = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> None:
    """Go on with a batch that has stopped: with what was cancelled, and what was not started."""
    changes = Changes(concurrency, budget, tuple(stop or ()))
    _run(Options(url, token, data_dir, as_json), "go_on", batch_id, changes, None, detach=detach)
