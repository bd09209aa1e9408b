"""How batches are shown on the command line."""

from collections.abc import Sequence

from rich.markup import escape

from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, counted, duration, local_time, one_line, styled_status
from outlast.client import Batch

BATCH_COLUMNS = (
    Column("BATCH"),
    Column("STATUS", rank=1),
    Column("TOOL", rank=3, least=12),
    Column("ITEMS", rank=2, justify="right"),
    Column("FAILED", rank=4, justify="right"),
    Column("COST", rank=5, justify="right"),
    Column("NAME", rank=7, least=8, most=30),
    Column("AGE", rank=6),
)


def batch_row(batch: Batch) -> Sequence[str]:
    """A batch as a row of a list."""
    return (
        escape(batch.id),
        styled_status(batch.status),
        escape(batch.tool),
        f"{batch.ended:,}/{batch.total:,}",
        f"{batch.failed:,}" if batch.failed else "",
        _usd(batch.cost_usd) if batch.cost_usd else "",
        escape(one_line(batch.name)),
        ago(batch.created_at),
    )


def batch_sheet(batch: Batch) -> list[tuple[str, str]]:
    """All that is known of a batch."""
    rows = [
        ("batch", escape(batch.id)),
        ("name", escape(one_line(batch.name))),
        ("tool", escape(batch.tool)),
        ("Actor", escape(batch.actor or "")),
        ("status", styled_status(batch.status)),
        ("", escape(one_line(batch.status_message))),
        ("items", f"{batch.total:,}: {_counts(batch)}"),
        ("rows", f"{batch.rows:,}" if batch.rows else ""),
        ("rate", _rate(batch)),
        ("cost", _money(batch)),
        ("started", local_time(batch.created_at)),
        ("ended", local_time(batch.finished_at) if batch.finished_at else ""),
        ("results", escape(batch.results)),
        ("workflow", escape(batch.workflow_url or "")),
    ]
    return [(name, value) for name, value in rows if value]


def headline(batch: Batch, url: str) -> str:
    """The line with which watching begins."""
    of = counted(batch.total, "item")
    return f"[bold]{escape(batch.tool)}[/]  {of}  [dim]batch[/] {escape(batch.id)}  [dim]on {escape(url)}[/]"


def progress_line(batch: Batch) -> str:
    """How far it is, in one line. It begins with what the bar shows."""
    parts = [f"{batch.ended:,} of {batch.total:,} items"]
    parts += [f"{batch.failed:,} failed"] if batch.failed else []
    parts += [f"{batch.under_way:,} under way"] if batch.under_way else []
    parts += [rate] if (rate := _rate(batch)) else []
    parts += [money] if (money := _money(batch)) else []
    parts += [one_line(batch.status_message)] if batch.status_message else []
    return ", ".join(parts)


def state_line(batch: Batch) -> str:
    """The outcome of a batch."""
    words = f"{styled_status(batch.status)}  {_counts(batch)}"
    money = f", {_money(batch)}" if batch.cost_usd else ""
    why = f"\n  {escape(one_line(batch.status_message))}" if batch.status_message else ""
    return f"{words}{money}{why}"


def _counts(batch: Batch) -> str:
    counts = {
        "completed": batch.completed,
        "failed": batch.failed,
        "cancelled": batch.cancelled,
        "under way": batch.under_way,
        "not started": batch.waiting,
    }
    return ", ".join(f"{number:,} {name}" for name, number in counts.items() if number) or "none yet"


def _rate(batch: Batch) -> str:
    if batch.has_ended or not batch.per_minute:
        return ""
    left = f", {duration(batch.seconds_left)} left" if batch.seconds_left else ""
    return f"{batch.per_minute:,.0f} a minute{left}"


def _money(batch: Batch) -> str:
    if not batch.cost_usd and batch.budget_usd is None:
        return ""
    return _usd(batch.cost_usd) + (f" of {_usd(batch.budget_usd)}" if batch.budget_usd is not None else "")


def _usd(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else f"${amount:.6f}".rstrip("0")
