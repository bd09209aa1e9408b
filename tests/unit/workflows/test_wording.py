"""What a model reads: how many rows there are, and which call brings the others."""

import json
from typing import Any

import pytest

from outlast.activities.runs.contracts import RunState
from outlast.activities.storages.contracts import DatasetPage
from outlast.workflows.contracts.tool_calls import Offers, TextContent, ToolResult, rows_as_lines
from outlast.workflows.tools.answers import describe_page, describe_run_status, next_page_hint
from outlast.workflows.tools.core.run_report import build_run_report, run_failure
from outlast.workflows.tools.default.get_actor_run import present_finished_run, present_run_state
from outlast.workflows.tools.framework.executors import ActorOutcome, describe_run


def page(rows: int, *, total: int, offset: int = 0, rows_cut: int = 0) -> DatasetPage:
    items: tuple[Any, ...] = tuple({"n": n} for n in range(rows))
    return DatasetPage(dataset_id="D", items=items, offset=offset, limit=20, total=total, rows_cut=rows_cut)


def run(status: str = "RUNNING", **fields: Any) -> RunState:
    return RunState(run_id="R", actor_id="A", status=status, dataset_id="D", key_value_store_id="K", **fields)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (page(0, total=0), "Dataset D is empty."),
        (page(0, total=3, offset=5), "Dataset D has 3 rows; none from offset 5."),
        (page(2, total=9, offset=3), "Rows 3 to 4 of 9 in dataset D."),
        (page(1, total=9, offset=3), "Row 3 of 9 in dataset D."),
        (page(1, total=1), "The only row in dataset D."),
    ],
)
def test_a_page_says_which_rows_it_holds(shown: DatasetPage, text: str) -> None:
    assert describe_page(shown) == text


def test_the_last_page_names_no_next_call() -> None:
    assert next_page_hint(page(2, total=5, offset=3)) is None


def test_any_other_page_names_the_call_for_the_next_rows() -> None:
    hint = next_page_hint(page(2, total=9, rows_cut=3))
    assert hint == "More rows (3 rows of this page did not fit): call get-dataset-items with datasetId D and offset 2."


def test_a_row_too_large_for_an_answer_asks_for_fields() -> None:
    hint = next_page_hint(page(0, total=9, rows_cut=9))
    assert hint is not None
    assert "`fields`" in hint


def test_rows_are_one_json_object_a_line_with_their_own_letters() -> None:
    lines = rows_as_lines(({"a": "é\n"}, {"b": 1})).split("\n")
    assert [json.loads(line) for line in lines] == [{"a": "é\n"}, {"b": 1}]
    assert "é" in lines[0]


def test_a_run_is_described_with_its_status_message() -> None:
    assert describe_run_status(run(status_message="Slept 1 of 2 s")) == "Run R is RUNNING. Slept 1 of 2 s"
    assert describe_run_status(run("READY")) == "Run R is READY."


def test_operators_see_run_link_rows_and_cost() -> None:
    text = describe_run(run(console_url="https://c/R", usage_total_usd=0.0125, status_message="ok"), rows=3)
    assert "[R](https://c/R): RUNNING, ok" in text
    assert "`D`: 3 rows" in text
    assert "0.0125 US dollars" in text
    assert "`R`" in describe_run(run())


@pytest.mark.parametrize(
    ("status", "category"), [("FAILED", "unknown"), ("TIMED-OUT", "timeout"), ("ABORTED", "cancelled")]
)
def test_a_run_that_ended_badly_is_a_failure_that_is_not_retried(status: str, category: str) -> None:
    envelope = run_failure(run(status, status_message="why"), tool="call-actor")
    assert envelope is not None
    assert (envelope.category, envelope.retryable) == (category, False)
    assert "why" in envelope.message
    assert "get-actor-log" in (envelope.hint or "")


@pytest.mark.parametrize("status", ["SUCCEEDED", "RUNNING", "READY", "ABORTING", "TIMING-OUT"])
def test_any_other_run_is_none(status: str) -> None:
    assert run_failure(run(status), tool="call-actor") is None


def test_a_report_spells_its_fields_as_the_platform_does() -> None:
    report = build_run_report(run(stats={"durationMillis": 5}), summary="s", next_step="n", page=page(2, total=9))
    assert report.structured() == {
        "runId": "R",
        "actorId": "A",
        "status": "RUNNING",
        "stats": {"durationMillis": 5},
        "storages": {
            "datasets": {"default": {"id": "D", "itemCount": 9, "fields": []}},
            "keyValueStores": {"default": {"id": "K"}},
        },
        "items": [{"n": 0}, {"n": 1}],
        "summary": "s",
        "nextStep": "n",
    }


def test_the_headline_is_the_first_line_and_bounded() -> None:
    assert ToolResult(content=(TextContent(text="one\ntwo"),)).headline == "one"
    assert ToolResult().headline is None
    headline = ToolResult(content=(TextContent(text="x" * 500),)).headline
    assert headline == "x" * 199 + "…"


def test_a_failure_is_readable_for_a_model() -> None:
    envelope = run_failure(run("FAILED"), tool="call-actor")
    assert envelope is not None
    result = ToolResult.failed(envelope)
    assert result.is_error
    assert "Run R ended as FAILED" in result.text


def only(*tools: str) -> Offers:
    return lambda tool: tool in tools


@pytest.mark.parametrize(
    ("offers", "named"),
    [
        (only("get-dataset-items", "get-actor-output"), "call get-dataset-items with datasetId D and offset 2."),
        (only("get-actor-output"), "call get-actor-output with datasetId D and offset 2."),
        (only(), "More rows are in dataset D."),
    ],
)
def test_a_finished_run_names_only_tools_that_are_offered(offers: Offers, named: str) -> None:
    outcome = ActorOutcome("call-actor", "u/a", run("SUCCEEDED"), page(2, total=9), offers=offers)
    assert named in present_finished_run(outcome).text


def test_a_failed_run_names_the_log_only_when_it_can_be_read() -> None:
    for offers, told in ((only("get-actor-log"), True), (only(), False)):
        result = present_run_state(run("FAILED"), offers)
        assert ("get-actor-log" in result.text) is told
        assert "dataset D" in result.text
    assert "get-actor-log" not in present_run_state(run("RUNNING"), only("get-actor-run")).text
