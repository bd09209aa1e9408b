"""Rows of results are small, whatever the size of the answer."""

import json
from typing import Any

from outlast.activities.batches.contracts import ItemOutcome, MetTask
from outlast.activities.batches.round import MAX_ANSWER_BYTES, row_of


def row(outcome: ItemOutcome) -> dict[str, Any]:
    return json.loads(row_of(outcome, key="k", index=3, task=MetTask(task_id="t"), attempts=1))


def report(items: list[Any] | None, count: int | None = None) -> dict[str, Any]:
    """The structured answer about a run."""
    dataset = {"id": "d", **({"itemCount": count} if count is not None else {})}
    storages = {"datasets": {"default": dataset}}
    return {"runId": "r", "storages": storages, "stats": {"x": 1}, **({"items": items} if items is not None else {})}


def test_the_rows_of_a_run_are_there_and_what_else_is_known_of_it_is_not() -> None:
    found = row(ItemOutcome(status="completed", structured=report([{"a": 1}], 1), run_id="r", dataset_id="d"))
    assert (found["items"], found["rows"], found["run_id"], found["dataset_id"]) == ([{"a": 1}], 1, "r", "d")
    assert "result" not in found


def test_stored_rows_are_counted_and_named() -> None:
    found = row(ItemOutcome(status="completed", structured=report([{"a": 1}], 5_000), locator="out_x"))
    assert (found["rows"], found["locator"]) == (5_000, "out_x")


def test_another_answer_is_kept_as_it_is_when_it_is_small() -> None:
    assert row(ItemOutcome(status="completed", structured={"doubled": 4}))["result"] == {"doubled": 4}
    assert row(ItemOutcome(status="completed", text="said"))["text"] == "said"
    odd = {"items": "no list", "count": True}
    found = row(ItemOutcome(status="completed", structured=odd))
    assert found["result"] == odd
    assert "rows" not in found


def test_a_large_answer_is_left_to_its_task() -> None:
    large = "x" * MAX_ANSWER_BYTES
    for outcome in (
        ItemOutcome(status="completed", text=large + "x"),
        ItemOutcome(status="completed", structured={"text": large}),
        ItemOutcome(status="completed", structured=report([large], 1)),
    ):
        found = row(outcome)
        assert found["truncated"]
        assert len(json.dumps(found)) < 1_000
