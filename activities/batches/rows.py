"""Rows of a batch's results. Pure."""

from collections.abc import Mapping

from pydantic import JsonValue

from outlast.activities.batches.contracts import ItemOutcome, ItemRow, MetTask
from outlast.activities.contracts import JsonObject
from outlast.activities.json_values import is_too_deep, text_of

MAX_ANSWER_BYTES = 16 * 1024
"""A larger answer is not in its row: the row names its task, and its locator when it is stored."""


def row_of(outcome: ItemOutcome, *, key: str, index: int, task: MetTask, attempts: int) -> bytes:
    """The row, as JSON."""
    rows = rows_in(outcome)
    row = ItemRow(
        key=key,
        index=index,
        status=outcome.status,
        task_id=task.task_id,
        attempts=attempts,
        reused=task.reused,
        run_id=outcome.run_id,
        dataset_id=outcome.dataset_id,
        cost_usd=float(outcome.cost_usd) if outcome.cost_usd is not None else None,
        seconds=round(outcome.seconds, 3),
        rows=rows,
        locator=outcome.locator,
        error=outcome.error,
    )
    if outcome.status == "completed":
        row = _with_answer(row, outcome)
    return text_of(row.model_dump(mode="json", exclude_none=True))


def rows_in(outcome: ItemOutcome) -> int | None:
    """How many rows the answer has: those of the run's dataset, stored ones included; None for another answer."""
    answer: JsonValue = outcome.structured or {}
    items = answer.get("items")
    for name in ("storages", "datasets", "default", "itemCount"):
        answer = answer.get(name) if isinstance(answer, dict) else None
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer
    return len(items) if isinstance(items, list) else None


def _with_answer(row: ItemRow, outcome: ItemOutcome) -> ItemRow:
    answer = outcome.structured
    if answer is None:
        is_large = len(outcome.text.encode()) > MAX_ANSWER_BYTES
        return row.model_copy(update={"truncated": True} if is_large else {"text": outcome.text})
    items = answer.get("items")
    rest = None if _is_report(answer) else {name: value for name, value in answer.items() if name != "items"}
    shown: JsonObject = {"items": items if isinstance(items, list) else None, "result": rest or None}
    if not isinstance(items, list) and items is not None:
        shown["result"] = answer
    if is_too_deep(shown) or len(text_of(shown)) > MAX_ANSWER_BYTES:
        return row.model_copy(update={"truncated": True})
    return row.model_copy(update=shown)


def _is_report(answer: Mapping[str, JsonValue]) -> bool:
    """Whether the answer describes a run: the row says of it what matters, and the run's id leads to the rest."""
    return "runId" in answer and "storages" in answer
