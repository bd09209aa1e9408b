"""The options of `outlast batch`."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from outlast.cli.ask.until_conditions import UNTIL_HELP
from outlast.cli.completion import complete_tool
from outlast.cli.show.parse_durations import parse_duration, parse_usd

_ITEMS = "Items"
_LIMITS = "Limits"

Status = Literal["completed", "failed", "cancelled"]
RowOrder = Literal["given", "any"]


def _of_items(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_ITEMS, **options)


def _limit(help_text: str, *names: str, **options: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_LIMITS, **options)


BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch.", show_default=False)]
ToolArgument = Annotated[
    str, typer.Argument(help="Name of the tool, or an Actor as user/name.", autocompletion=complete_tool)
]
FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Items: .jsonl or .csv, or - for lines of JSON.")
]
PairOption = Annotated[
    list[str] | None,
    _of_items("An argument of every item; dots reach into objects.", "--arg", "-a", metavar="NAME=VALUE"),
]
MapOption = Annotated[
    list[str] | None,
    _of_items("The argument that takes its value from a field of the row.", "--map", "-m", metavar="NAME=FIELD"),
]
KeyOption = Annotated[str | None, _of_items("The field of a row that is the item's key.", metavar="FIELD")]
DelimiterOption = Annotated[str | None, _of_items("What separates the values of CSV: , ; | or tab. It is detected.")]
OutputOption = Annotated[str | None, _of_items("Take the rows of a stored output.", metavar="LOCATOR")]
DatasetOption = Annotated[str | None, _of_items("Take the rows of a dataset.", metavar="ID")]
RowOrderOption = Annotated[RowOrder | None, typer.Option(help="Order of the rows: that of the items, or any.")]
RetryOption = Annotated[
    list[str] | None,
    typer.Option("--retry", metavar="CATEGORY=N", help="Try items again that fail so: rate_limit=3."),
]
ConcurrencyOption = Annotated[int | None, _limit("Items under way at a time (10).", "--concurrency", "-c", min=1)]
BudgetOption = Annotated[float | None, _limit("What all items may cost together.", metavar="USD", parser=parse_usd)]
MaxUsdOption = Annotated[float | None, _limit("What one item may cost.", metavar="USD", parser=parse_usd)]
MaxItemsOption = Annotated[int | None, _limit("Rows that one item's run may produce.", min=1)]
MaxRunTimeOption = Annotated[
    float | None, _limit("Time that one item's run may take.", parser=parse_duration, metavar="TIME")
]
UntilOption = Annotated[list[str] | None, _limit("Of one item's run. " + UNTIL_HELP, metavar="CONDITION")]
DeadlineOption = Annotated[
    float | None, _limit("An item fails after this: 90s, 10m, 2h.", parser=parse_duration, metavar="TIME")
]
ReuseOption = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="Take answers of equal calls that run, or are not older than this: 90s, 6h, 7d."),
]
RefreshOption = Annotated[
    bool, typer.Option("--refresh", help="Start the items in any case; later calls with --reuse may take the answers.")
]
StopOption = Annotated[
    list[str] | None,
    _limit(
        "Stop early: failures=10, failure_share=0.2, seconds=600, completed=100, rows=500, categories=timeout,payment; "
        "under_way=cancel cancels the rest.",
        "--stop",
        metavar="RULE=VALUE",
    ),
]
ModeOption = Annotated[str | None, typer.Option(help="As for `outlast call`.")]
NameOption = Annotated[str | None, typer.Option(help="For people; any text.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Start another batch, although an equal one exists.")]
SaveOption = Annotated[
    Path | None, typer.Option("--save", "-o", metavar="FILE", help="Write the results to this file, .jsonl or .csv.")
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Print the batch's id and leave.")]
StatusOption = Annotated[Status | None, typer.Option(help="Only items of this status.")]
RowsOption = Annotated[str | None, typer.Option(metavar="FROM:TO", help="Only these rows: 100:200, :50, 1000:")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the batch has ended.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
CategoryOption = Annotated[
    list[str] | None, typer.Option("--category", metavar="CATEGORY", help="Only items that failed so.")
]
OpenOption = Annotated[bool, typer.Option("--open", help="Only batches that have not ended.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="Batches to list at most.")]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Show how far it is until it has ended.")]
