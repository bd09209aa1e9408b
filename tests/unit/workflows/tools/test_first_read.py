"""What a call reads first is found without a workflow, where its handler begins with a read of a storage."""

import pytest
from pydantic import JsonValue

from outlast.activities.contracts import Caller, CallPayment, SealedSecret
from outlast.activities.storages.contracts import DatasetItemsInput, StorageListInput
from outlast.activities.storages.datasets import DatasetActivities
from outlast.activities.storages.records import ListingActivities
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.tools.answers import MAX_CONTENT_BYTES
from outlast.workflows.tools.first_read import FirstRead, first_read_of

_CALLER = Caller(id="somebody")
_PAYMENT = CallPayment(protocol="x402", secret=SealedSecret(key_id="k1", ciphertext="c"))
_PAYER = Caller(id="somebody", payment=_PAYMENT)


def _call(tool: str, **arguments: JsonValue) -> ToolCall:
    return ToolCall(tool=tool, arguments=arguments, mode="default", caller=_CALLER)


def test_a_page_of_a_dataset_is_what_its_tool_reads_first() -> None:
    request = DatasetItemsInput(
        caller=_CALLER,
        dataset_id="d1",
        offset=3,
        limit=20,
        fields=("a.b",),
        flatten=("a",),
        max_bytes=MAX_CONTENT_BYTES,
        shorten_large_row=True,
    )
    found = first_read_of(_call("get-dataset-items", datasetId="d1", offset=3, fields="a.b"))
    assert found == FirstRead(DatasetActivities.fetch_dataset_items, request)


def test_a_list_is_what_its_tool_reads_first() -> None:
    found = first_read_of(_call("get-dataset-list"))
    assert found is not None
    assert found.method is ListingActivities.list_datasets
    assert isinstance(found.request, StorageListInput)


@pytest.mark.parametrize(
    "call",
    [
        _call("call-actor", actor="apify/hello", input={}),
        _call("get-actor-run", runId="r1"),
        _call("search-actors", keywords="maps"),
        _call("get-dataset-items", datasetId="d1", limit=-1),
        _call("no-such-tool"),
        _call("get-dataset-items", datasetId="d1").model_copy(update={"caller": _PAYER}),
    ],
    ids=["starts a run", "reads a run", "reads the store", "arguments that do not fit", "unknown", "pays for the read"],
)
def test_whoever_does_something_else_first_or_pays_reads_nothing_ahead(call: ToolCall) -> None:
    assert first_read_of(call) is None
