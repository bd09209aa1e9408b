"""A worker that stores a dataset is killed; another one completes it, with the same digest and nothing left behind."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from apify_client import ApifyClient
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import StoreDatasetInput, StoredDataset
from outlast.activities.outputs.output_format import DEFAULT_SIZES
from outlast.activities.outputs.reader import open_output, verify_output
from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.calls.stored_outputs import CALLER, SCOPE, keys_of, objects_in_memory, rows_of, stored
from tests.support.eventually import eventually
from tests.support.processes.module_process import ModuleProcess
from tests.support.processes.output_worker import StoreOneDataset
from tests.support.stacks.s3 import S3Server
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.stack_config import clean_environment

ROWS: list[dict[str, Any]] = [
    {"id": number, "text": f"ü{number} " * 80, "noise": secrets.token_hex(300)} for number in range(24_000)
]


@pytest.fixture(scope="module")
def dataset_id(outputs_sandbox: Sandbox) -> str:
    """About 36 MB: five parts."""
    dataset_id = outputs_sandbox.new_dataset(ROWS[:4_000])
    platform = ApifyClient(outputs_sandbox.token, api_url=outputs_sandbox.url)
    for start in range(4_000, len(ROWS), 4_000):
        platform.dataset(dataset_id).push_items(ROWS[start : start + 4_000])
    return dataset_id


@pytest.fixture(params=[pytest.param("disk", marks=pytest.mark.thorough), "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The URL of an empty store, and the variables by which a worker opens it."""
    if request.param == "disk":
        return str(tmp_path / "outputs"), {}
    server: S3Server = request.getfixturevalue("s3_server")
    return server.url(f"killed/{secrets.token_hex(8)}"), server.environment


@pytest.fixture
async def client(temporal_server: TemporalServer) -> Client:
    return await Client.connect(temporal_server.address, data_converter=pydantic_data_converter)


class Setting:
    """A queue, a store, and workers that come and go."""

    def __init__(
        self, client: Client, server: TemporalServer, sandbox: Sandbox, store: tuple[str, dict[str, str]], log: Path
    ) -> None:
        self._client, self._log = client, log
        url, environment = store
        self._environment = clean_environment(**environment)
        self.queue = f"outputs-{secrets.token_hex(4)}"
        self._arguments = [server.address, self.queue, url, sandbox.url, sandbox.token]
        options = {name.lower(): value for name, value in environment.items()}
        self.objects = OutputObjects.open(url, **options)

    @contextmanager
    def worker(self) -> Iterator[None]:
        """A worker, killed at the end of the block."""
        module, environment = "tests.support.processes.output_worker", self._environment
        process = ModuleProcess(module, self._arguments, log=self._log, environment=environment)
        try:
            yield
        finally:
            process.kill()
            process.wait()

    async def start(self, dataset_id: str, *, heartbeat_seconds: int = 2) -> WorkflowHandle[Any, StoredDataset]:
        order = StoreDatasetInput(caller=CALLER, scope=SCOPE, dataset_id=dataset_id)
        return await self._client.start_workflow(
            StoreOneDataset.run, args=[order, heartbeat_seconds], id=f"store-{self.queue}", task_queue=self.queue
        )

    async def parts(self) -> list[str]:
        return await keys_of(self.objects, "parts")

    async def check(self, result: StoredDataset) -> None:
        """The rows are all there, the digest is that of an undisturbed writing, and nothing else is in the store."""
        reader = await open_output(self.objects, result.output.locator, CALLER.id)
        assert [json.loads(row) for row in await rows_of(reader)] == ROWS
        content = b"".join([piece async for piece in reader.bytes()])
        undisturbed = await stored(objects_in_memory(), content, sizes=DEFAULT_SIZES)
        assert result.output.digest == undisturbed.digest
        assert result.output.locator == undisturbed.locator
        assert await verify_output(self.objects, reader.manifest) == ()
        assert await self.parts() == [part.key for part in reader.manifest.parts]


@pytest.fixture
def setting(
    client: Client,
    temporal_server: TemporalServer,
    sandbox: Sandbox,
    store: tuple[str, dict[str, str]],
    tmp_path: Path,
) -> Setting:
    return Setting(client, temporal_server, sandbox, store, tmp_path / "worker.log")


async def test_another_worker_goes_on_after_the_last_part(setting: Setting, sandbox: Sandbox, dataset_id: str) -> None:
    # The third page never comes: by then the second one, of about 32 MB, is stored.
    sandbox.order_fault("hang", path=f"{dataset_id}/items", after=2, times=1)
    # On a busy machine two seconds may pass without a heartbeat, and the first page of a second attempt would hang.
    task = await setting.start(dataset_id, heartbeat_seconds=15)
    with setting.worker():
        await eventually(lambda: sandbox.faults[0]["hits"] == 1)
        before = await eventually(lambda: _at_least(setting, 3))
    with setting.worker():
        result = await task.result()
    await setting.check(result)
    assert (await setting.parts())[: len(before)] == before
    assert await setting.objects.staged_leftovers() == ()


async def test_killed_again_and_again_it_is_completed(setting: Setting, dataset_id: str) -> None:
    task = await setting.start(dataset_id)
    for number in range(1, 4):
        with setting.worker():
            await eventually(lambda: _at_least(setting, number), interval_seconds=0.002)  # noqa: B023 (awaited here)
    with setting.worker():
        result = await task.result()
    await setting.objects.delete([left.key for left in await setting.objects.staged_leftovers()])
    await setting.check(result)


async def _at_least(setting: Setting, number: int) -> list[str] | None:
    parts = await setting.parts()
    return parts if len(parts) >= number else None
