"""What is left out of a payload must come back when it is read."""

from collections.abc import Iterator

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from outlast.activities.contracts import Caller, Contract
from outlast.activities.runs.contracts import Budget, RunSpec, StartRunInput
from outlast.worker.converter import lean_data_converter
from outlast.worker.service import serving
from outlast.workflows.contracts.tool_calls import ToolCall

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
