"""Pages of a sweep on a disk and on S3: a death anywhere leaves nothing behind, and what may be needed stays."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.testing import ActivityEnvironment

from outlast.activities.failures.exceptions import OutputError
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import SweepInput, SweepReport
from outlast.activities.outputs.output_format import REFERENCES_ATTRIBUTE, OutputManifest, parse_locator
from outlast.activities.outputs.reader import manifest_key, open_output
from outlast.activities.outputs.sweep import OutputSweepActivities, TemporalTasks
from outlast.activities.outputs.writer import OutputWriter
from outlast.deploy.local.temporal_server import TemporalServer
from outlast.worker.search_attributes import register_search_attributes
from tests.support.calls.stored_outputs import CALLER, SCOPE, SMALL, keys_of
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect

CONTENT = b"".join(b"row %d\n" % number for number in range(200))
OVER = timedelta(seconds=-1)


@pytest.fixture
async def temporal(temporal_server: TemporalServer) -> Client:
    client = await connect(temporal_server.address)
    await register_search_attributes(client)

    async def is_known() -> bool:
        try:
            await client.count_workflows(f"{REFERENCES_ATTRIBUTE} IS NULL")
        except RPCError:
            return False
        return True

    await eventually(is_known)
    return client


async def stored(objects: OutputObjects, *, ttl: timedelta) -> OutputManifest:
    async with OutputWriter(objects, SCOPE, what="content", kind="rows", sizes=SMALL) as writer:
        await writer.write(CONTENT)
        return await writer.finish(content_type="application/x-ndjson", ttl=ttl)


async def left_by_a_dead_writer(objects: OutputObjects) -> list[str]:
    """Parts that no manifest names."""
    async with OutputWriter(objects, SCOPE, what="other content", kind="rows", sizes=SMALL) as writer:
        await writer.write(CONTENT)
    return await keys_of(objects, "parts")


async def sweep(objects: OutputObjects, temporal: Client, *, grace: timedelta = timedelta(0)) -> SweepReport:
    """Every page; counts of the first, which is about outputs."""
    activities = OutputSweepActivities(objects, TemporalTasks(temporal), grace=grace)
    first = report = await ActivityEnvironment().run(activities.sweep_page, SweepInput())
    while report.cursor is not None:
        report = await ActivityEnvironment().run(activities.sweep_page, SweepInput(cursor=report.cursor))
    return first


async def refusal(objects: OutputObjects, manifest: OutputManifest) -> str | None:
    try:
        await open_output(objects, manifest.locator, CALLER.id)
    except OutputError as refused:
        return refused.reason
    return None


class Crash(BaseException):
    """Stands for the death of the process."""


class CrashingObjects(OutputObjects):
    """Dies instead of carrying out the change number `at`, counted from 0."""

    def __init__(self, objects: OutputObjects, at: int) -> None:
        vars(self).update(vars(objects))
        self._left = at

    async def put(self, key: str, data: bytes) -> None:
        self._count()
        await super().put(key, data)

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._count()
            await super().delete([key])

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Crash


@pytest.mark.parametrize("changes", [0, 1, 2, 3])
async def test_a_sweep_that_dies_anywhere_is_finished_by_the_next(
    objects: OutputObjects, temporal: Client, changes: int
) -> None:
    output = await stored(objects, ttl=OVER)
    assert len(output.parts) > 3
    with pytest.raises(Crash):
        await sweep(CrashingObjects(objects, changes), temporal)
    assert await refusal(objects, output) == "expired"
    await sweep(objects, temporal)
    assert await refusal(objects, output) == "expired"
    assert await keys_of(objects, "parts") + await keys_of(objects, "manifests") == []
    assert (await sweep(objects, temporal)).deleted == 0


async def test_what_a_dead_writer_left_is_removed_when_it_is_old_enough(
    objects: OutputObjects, temporal: Client
) -> None:
    kept = await stored(objects, ttl=timedelta(days=1))
    left = await left_by_a_dead_writer(objects)
    assert len(left) > len(kept.parts)
    assert (await sweep(objects, temporal, grace=timedelta(hours=1))).deleted == 0
    assert await keys_of(objects, "parts") == left
    report = await sweep(objects, temporal)
    assert report.deleted == len(left) - len(kept.parts)
    assert sorted(await keys_of(objects, "parts")) == sorted(part.key for part in kept.parts)
    assert await refusal(objects, kept) is None


async def test_a_damaged_manifest_makes_no_orphans(objects: OutputObjects, temporal: Client) -> None:
    output = await stored(objects, ttl=timedelta(days=1))
    key = manifest_key(parse_locator(output.locator, caller_id=CALLER.id))
    whole = await objects.get(key)
    assert whole is not None
    await objects.put(key, whole[:-2])
    assert (await sweep(objects, temporal)).deleted == 0
    assert await refusal(objects, output) == "damaged"
    await objects.put(key, whole)
    assert await refusal(objects, output) is None
