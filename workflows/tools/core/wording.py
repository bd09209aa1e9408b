"""How rows and runs are put into words that a model can act on."""

import json

from pydantic import JsonValue

from activities.models import DatasetPage, RunState


def rows_as_lines(items: tuple[JsonValue, ...]) -> str:
    """One JSON object per line."""
    return "\n".join(json.dumps(item, ensure_ascii=False) for item in items)


def describe_page(page: DatasetPage) -> str:
    """How much of the dataset the page holds."""
    if page.total == 0:
        return f"Dataset {page.dataset_id} is empty."
    if not page.items:
        return f"Dataset {page.dataset_id} has {page.total} rows; none from offset {page.offset}."
    last = page.offset + len(page.items) - 1
    return f"Rows {page.offset} to {last} of {page.total} in dataset {page.dataset_id}."


def next_page_hint(page: DatasetPage) -> str | None:
    """What to call for the rows that are not on the page; None when there are none."""
    next_offset = page.offset + len(page.items)
    if next_offset >= page.total:
        return None
    if not page.items and page.rows_cut:
        return (
            f"Row {page.offset} alone is larger than one answer may be. Call get-dataset-items with `fields` naming "
            "the few fields you need."
        )
    cut = f" ({page.rows_cut} rows of this page did not fit)" if page.rows_cut else ""
    return f"More rows{cut}: call get-dataset-items with datasetId {page.dataset_id} and offset {next_offset}."


def describe_run_status(run: RunState) -> str:
    """The run's state in one sentence."""
    message = f" {run.status_message}" if run.status_message else ""
    return f"Run {run.run_id} is {run.status}.{message}"
