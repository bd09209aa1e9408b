"""What is left out of a payload must come back when it is read."""

from collections.abc import Iterator

import pytest
from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from outlast.activities.contracts import Caller, Contract
from outlast.activities.runs.contracts import Budget, RunSpec, StartRunInput
from outlast.worker.payloads import lean_data_converter
from outlast.worker.service import serving
from outlast.workflows.contracts.tool_calls import (
    ImageContent,
    TextContent,
    ToolCall,
    ToolOutcome,
    ToolResult,
    rows_as_lines,
)

assert serving, "imported so that every contract is known here"


def contracts(base: type[Contract] = Contract) -> Iterator[type[Contract]]:
    for contract in base.__subclasses__():
        yield contract
        yield from contracts(contract)


def _name(contract: type[Contract]) -> str:
    return f"{contract.__module__}.{contract.__qualname__}"


@pytest.mark.parametrize("contract", sorted(set(contracts()), key=_name))
def test_every_field_that_may_be_none_is_none_by_default(contract: type[Contract]) -> None:
    wrong = [
        name for name, field in contract.model_fields.items() if _accepts_none(field) and not _is_none_by_default(field)
    ]
    assert wrong == []


def test_a_payload_does_not_mention_absent_fields_and_reads_the_same() -> None:
    order = StartRunInput(
        caller=Caller(id="local"), spec=RunSpec(actor="a/b", budget=Budget(max_items=3)), operation_id="1"
    )
    [payload] = lean_data_converter.payload_converter.to_payloads([order])
    assert b"null" not in payload.data
    assert lean_data_converter.payload_converter.from_payload(payload, StartRunInput) == order


def test_nulls_in_the_data_of_others_are_kept() -> None:
    call = ToolCall(tool="call-actor", arguments={"input": {"proxy": None, "list": [None]}}, caller=Caller(id="local"))
    [payload] = lean_data_converter.payload_converter.to_payloads([call])
    assert lean_data_converter.payload_converter.from_payload(payload, ToolCall) == call


ROWS: list[JsonValue] = [
    {"id": "first-row", "name": "Zoë\n\U0001f600", "price": 1e22, "none": None, "list": [1, 2.50, "x" * 200]},
    {"id": "second-row", "big": 2**70, "small": -0.0},
]


@pytest.mark.parametrize("outcome", [True, False], ids=["outcome", "result"])
@pytest.mark.parametrize("around", [("", ""), ("Run R.\n", "\nThese are all rows.")], ids=["alone", "in-text"])
def test_rows_of_an_answer_are_written_once_and_read_in_both_places(outcome: bool, around: tuple[str, str]) -> None:
    text = rows_as_lines(ROWS).join(around)
    picture = ImageContent(data="AAAA", mimeType="image/png")
    structured: dict[str, JsonValue] = {"items": ROWS, "runId": "R", "summary": None}
    result = ToolResult(content=(TextContent(text=text), picture), structured=structured, meta={"a": None})
    value = ToolOutcome(result=result, seconds=1.5) if outcome else result
    [payload] = lean_data_converter.payload_converter.to_payloads([value])
    assert payload.data.count(b"first-row") == 1
    assert lean_data_converter.payload_converter.from_payload(payload, type(value)) == value


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content=(TextContent(text="other words"),), structured={"items": ROWS}),
        ToolResult(content=(TextContent(text="x" * 500),), structured={"items": []}),
        ToolResult(raw_content=({"type": "text", "text": rows_as_lines(ROWS)},), structured={"items": ROWS}),
        ToolResult(structured={"items": ROWS}),
        ToolResult(content=(TextContent(text=rows_as_lines(ROWS)),)),
    ],
    ids=["other-text", "no-rows", "proxied", "no-text", "no-structure"],
)
def test_other_answers_are_written_as_they_are(result: ToolResult) -> None:
    [payload] = lean_data_converter.payload_converter.to_payloads([result])
    assert b"rows_at" not in payload.data
    assert lean_data_converter.payload_converter.from_payload(payload, ToolResult) == result


def test_nulls_written_by_an_older_version_are_read() -> None:
    [payload] = lean_data_converter.payload_converter.to_payloads([{"id": "local", "apify_token": None}])
    assert lean_data_converter.payload_converter.from_payload(payload, Caller) == Caller(id="local")


def _accepts_none(field: FieldInfo) -> bool:
    try:
        TypeAdapter[object](field.annotation or object).validate_python(None)
    except ValidationError:
        return False
    return True


def _is_none_by_default(field: FieldInfo) -> bool:
    return not field.is_required() and field.get_default(call_default_factory=True, validated_data={}) is None
