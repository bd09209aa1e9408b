"""Which payloads leave the history, and under which keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriverActivityInfo,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
)

from outlast.activities.object_store import OutputObjects, StoredPayload, parse_payload_key, payload_key
from outlast.activities.outputs.output_format import MAX_REFERENCES, reference_to, references_in
from outlast.worker.payloads import PayloadDriver, PayloadLost, external_storage

DIGEST = "0" * 64
LARGE = Payload(data=b"x" * 300_000)
TASK = StorageDriverWorkflowInfo(namespace="default", id="task-1")


@given(namespace=st.text(min_size=1), workflow_id=st.text(min_size=1))
def test_a_key_tells_its_workflow_whatever_its_name(namespace: str, workflow_id: str) -> None:
    payload = StoredPayload(namespace, workflow_id, DIGEST)
    key = payload_key(payload)
    assert parse_payload_key(key) == payload
    assert key.count("/") == 3
    assert ".." not in key


@pytest.mark.parametrize("key", ["payloads/default", f"other/default/task/{DIGEST}", "payloads/default/task/notes.txt"])
def test_other_keys_are_no_payloads(key: str) -> None:
    assert parse_payload_key(key) is None


@pytest.mark.parametrize(
    ("target", "is_stored"),
    [
        (TASK, True),
        (None, False),
        (StorageDriverWorkflowInfo(namespace="default"), False),
        (StorageDriverWorkflowInfo(namespace="default", id="x" * 181), False),
        (StorageDriverActivityInfo(namespace="default", id="1"), False),
    ],
)
def test_only_payloads_whose_workflow_can_be_asked_for_are_stored(
    target: StorageDriverWorkflowInfo | StorageDriverActivityInfo | None, is_stored: bool
) -> None:
    select = external_storage(OutputObjects(MemoryStore())).driver_selector
    assert select is not None
    assert (select(StorageDriverSelectContext(target=target), LARGE) is not None) == is_stored


async def test_what_a_reader_claims_of_a_replay_is_not_written() -> None:
    objects = OutputObjects(MemoryStore())
    [claim] = await PayloadDriver(objects, read_only=True).store(StorageDriverStoreContext(target=TASK), [LARGE])
    driver = PayloadDriver(objects)
    with pytest.raises(PayloadLost, match="missing"):
        await driver.retrieve(StorageDriverRetrieveContext(), [claim])
    assert await driver.store(StorageDriverStoreContext(target=TASK), [LARGE]) == [claim]
    assert await driver.retrieve(StorageDriverRetrieveContext(), [StorageDriverClaim(claim.claim_data)]) == [LARGE]


def test_locators_are_found_anywhere_in_the_arguments() -> None:
    locator = f"out_{'a' * 13}_{'b' * 32}_{'c' * 6}"
    assert references_in(f'{{"deep": ["see {locator}!", "{locator}"]}}') == (reference_to(locator),)
    many = " ".join(f"out_{'a' * 13}_{chr(97 + n // 20)}{chr(97 + n % 20)}{'b' * 30}_{'c' * 6}" for n in range(200))
    assert len(references_in(many)) == MAX_REFERENCES
