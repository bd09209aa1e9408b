"""What a page of rows says of the run that made them."""

from typing import Any

import pytest
from apify_client import ApifyClient
from pydantic import SecretStr
from temporalio.testing import ActivityEnvironment

from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.activities.storages.contracts import DatasetItemsInput, DatasetPage
from outlast.activities.storages.datasets import DatasetActivities
from tests.support.stacks.sandbox import Sandbox

LONG_TEXT = "x" * 5_000


@pytest.fixture
def dataset_id(platform: ApifyClient) -> str:
    dataset = platform.datasets().get_or_create()
    rows = [{"url": "https://a.example", "text": LONG_TEXT, "tags": [1, 2, 3, "four"]}, {"url": "https://b.example"}]
    platform.dataset(dataset.id).push_items(rows)
    return dataset.id


@pytest.fixture
def store_id(platform: ApifyClient) -> str:
    store = platform.key_value_stores().get_or_create()
    for number in range(25):
        platform.key_value_store(store.id).set_record(f"key-{number:02}", {"number": number})
    return store.id


async def page_of(sandbox: Sandbox, dataset_id: str, **order: Any) -> DatasetPage:
    token = SecretStr(sandbox.token)
    activities = DatasetActivities(
        ApifyPlatform(api_base_url=sandbox.url, operator_token=token, sealer=SecretSealer.ephemeral())
    )
    wanted = DatasetItemsInput(caller=Caller(id="tester"), dataset_id=dataset_id, max_text_chars=20, **order)
    return await ActivityEnvironment().run(activities.fetch_dataset_items, wanted)


async def test_a_page_describes_the_runs_storages(sandbox: Sandbox, dataset_id: str, store_id: str) -> None:
    page = await page_of(sandbox, dataset_id, describe_run_store=store_id)
    assert page.keys == tuple(f"key-{number:02}" for number in range(20))
    assert page.items_schema == {
        "type": "object",
        "properties": {
            "url": {"type": "string", "format": "uri"},
            "text": {"type": "string"},
            "tags": {"type": "array", "items": {"type": ["integer", "string"]}},
        },
        "required": ["url"],
    }
    assert (page.total, page.fields) == (2, ("url", "text", "tags"))


async def test_rows_come_without_keys_that_cannot_be_listed(sandbox: Sandbox, dataset_id: str) -> None:
    page = await page_of(sandbox, dataset_id, describe_run_store="noSuchStore123")
    assert page.keys is None
    assert len(page.items) == 2


async def test_a_page_names_the_actor_where_it_is_asked_to(
    sandbox: Sandbox, platform: ApifyClient, dataset_id: str, store_id: str
) -> None:
    actor = platform.actor("outlast/sleeper").get()
    assert actor is not None
    page = await page_of(sandbox, dataset_id, describe_run_store=store_id, describe_run_actor=actor.id)
    assert page.actor_name == "outlast/sleeper"


async def test_a_plain_page_describes_nothing(sandbox: Sandbox, dataset_id: str) -> None:
    page = await page_of(sandbox, dataset_id)
    assert (page.keys, page.items_schema, page.actor_name) == (None, None, None)
