"""Texts about rows, lists and runs, for models to act on."""

from outlast.activities.json_values import NESTED_NOTE
from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.activities.unicode_text import NOTE


def describe_page(page: DatasetPage) -> str:
    """How much of the dataset the page holds, and notes on what was changed in it."""
    notes = (
        page.large_row_note,
        NOTE if page.replaced_text else None,
        NESTED_NOTE if page.nested_rows else None,
    )
    return " ".join(part for part in (_described(page), *notes) if part)


def _described(page: DatasetPage) -> str:
    if page.total == 0:
        return f"Dataset {page.dataset_id} is empty."
    if page.end == page.offset:
        return f"Dataset {page.dataset_id} has {page.total} rows; none from offset {page.offset}."
    is_left_out = page.large_row_bytes is not None and not page.items
    hidden = page.end - page.offset - len(page.items) - is_left_out
    left_out = f" Empty rows left out: {hidden}." if hidden else ""
    if page.end == page.offset + 1:
        which = "The only row" if page.total == 1 else f"Row {page.offset} of {page.total}"
        return f"{which} in dataset {page.dataset_id}.{left_out}"
    return f"Rows {page.offset} to {page.end - 1} of {page.total} in dataset {page.dataset_id}.{left_out}"


def next_page_hint(page: DatasetPage, *, tool: str = "get-dataset-items") -> str | None:
    """How to get the next rows with `tool`, or more of a shortened one; None on the last page."""
    fields = f"For more of row {page.offset} call {tool} with `fields` naming the few fields you need."
    fewer = fields if page.large_row_bytes is not None else None
    if page.end >= page.total:
        return fewer
    if page.end == page.offset and page.rows_cut:
        return (
            f"Row {page.offset} alone is larger than one answer may be. Call {tool} with `fields` naming "
            "the few fields you need."
        )
    cut = f" ({page.rows_cut} rows of this page did not fit)" if page.rows_cut else ""
    more = f"More rows{cut}: call {tool} with datasetId {page.dataset_id} and offset {page.end}."
    return f"{fewer} {more}" if fewer else more


def describe_list(things: str, *, count: int, total: int, offset: int) -> str:
    """How much of a list a page holds; `things` is a plural."""
    if total == 0:
        return f"There are no {things}."
    if count == 0:
        return f"There are {total} {things}; none from offset {offset}."
    return f"{things.capitalize()} {offset + 1} to {offset + count} of {total}:"


def next_list_hint(tool: str, *, count: int, total: int, offset: int) -> str | None:
    """How to get the next entries with `tool`; None on the last page."""
    if count == 0 or offset + count >= total:
        return None
    return f"More: call {tool} with offset {offset + count}."


def describe_size(size_bytes: int | None) -> str:
    """A size that a person can read, such as `1.5 MB` (decimal units)."""
    if size_bytes is None:
        return "unknown size"
    size, unit = float(size_bytes), "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1_000 or unit == "TB":
            break
        size /= 1_000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def describe_run_facts(run: RunState) -> str | None:
    """The run's exit code, build, memory and time limit, as far as they are known."""
    memory, seconds = run.options.get("memoryMbytes"), run.options.get("timeoutSecs")
    facts = [
        f"exit code {run.exit_code}" if run.exit_code is not None else None,
        f"build {run.build_number}" if run.build_number else None,
        f"{memory} MB of memory" if memory else None,
        f"time-out {seconds} s" if seconds else None,
    ]
    known = ", ".join(fact for fact in facts if fact)
    return f"{known[0].upper()}{known[1:]}." if known else None


def describe_run_status(run: RunState) -> str:
    """The run's state in one sentence."""
    message = f" {run.status_message}" if run.status_message else ""
    times = {0: "", 1: " It was resurrected once."}
    told = times.get(run.resurrections, f" It was resurrected {run.resurrections} times.")
    enough = f" It was stopped by `until`: {run.until_met.in_words}." if run.until_met else ""
    return f"Run {run.run_id} is {run.status}.{enough}{message}{told}"
