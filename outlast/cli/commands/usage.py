"""`outlast usage`: the cost of calls."""

from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.options import BadInput, CsvOption, CsvSafeOption
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Column
from outlast.client import UsageOptions, UsageReport

_DAYS = ["%Y-%m-%d"]
_COUNTS = (
    Column("RUNS", rank=9, justify="right"),
    Column("MODEL CALLS", rank=8, justify="right"),
    Column("US DOLLARS", justify="right"),
)


@server_command()
async def usage(
    context: Context,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Group by `day`, `tool`, `actor`, `model`, `session`, `payer` or `caller`; repeatable."),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option(formats=_DAYS, help="First day (UTC). Default: the first of this month.")
    ] = None,
    until: Annotated[datetime | None, typer.Option(formats=_DAYS, help="Last day (UTC). Default: today.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool.")] = None,
    actor: Annotated[str | None, typer.Option(help="Only this Actor, as `user/name`.")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only this session.")] = None,
    caller: Annotated[
        str | None, typer.Option(help="Another caller, or `*` for all, if you have the right to see them.")
    ] = None,
    as_csv: CsvOption = False,
    csv_safe: CsvSafeOption = True,
) -> None:
    """Show the cost of your calls, and what your spending limits leave."""
    if as_csv and context.output.as_json:
        raise BadInput("--csv and --json exclude each other.")
    by = by or ["day"]
    wanted: UsageOptions = {
        "first_day": since.date() if since else None,
        "last_day": until.date() if until else None,
        "by": by,
        "tool": tool,
        "actor": actor,
        "session_id": session,
        "caller": caller,
    }
    if as_csv:
        typer.echo(await context.client.usage_csv(csv_safe=csv_safe, **wanted), nl=False)
        return
    report = await context.client.usage(**wanted)
    if context.output.as_json:
        context.output.document(report.document())
    else:
        _show(context, report, by)


def _show(context: Context, report: UsageReport, by: list[str]) -> None:
    if report.rows:
        columns = [*(Column(name.upper(), rank=place) for place, name in enumerate(by)), *_COUNTS]
        rows = [
            (
                *(escape(str(getattr(row, name) or "-")) for name in by),
                str(row.runs),
                str(row.model_calls),
                _usd(row.cost_usd),
            )
            for row in report.rows
        ]
        context.output.table(columns, rows)
    context.output.note(f"{report.first_day} to {report.last_day}: {_usd(report.total_usd)} US dollars")
    if report.damaged:
        context.output.note(f"[red]✗[/] {report.damaged} stored records cannot be read: the sums do not include them.")
    for cap in report.caps:
        if cap.cap_usd is not None:
            reserved = f", {_usd(cap.reserved_usd)} reserved" if cap.reserved_usd else ""
            left = f"{_usd(cap.left_usd or 0)} of {_usd(cap.cap_usd)} left"
            context.output.note(f"limit of the {cap.cap}: {left}{reserved}")


def _usd(amount: float) -> str:
    return f"{amount:.4f}"
