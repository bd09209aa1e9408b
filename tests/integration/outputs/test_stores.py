"""The store on real object stores: what is written is read, verified, listed and removed."""

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from outlast.activities.failures.exceptions import OutputDamaged, OutputError, StoreUnavailable
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.reader import open_output, verify_output
from outlast.activities.outputs.writer import OutputWriter
from outlast.deploy.local.orphans import die_with_parent
from tests.support.calls.stored_outputs import CALLER, SCOPE, TTL, bytes_of, keys_of, rows_of
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.s3 import S3Server

ROWS = [json.dumps({"id": number, "text": os.urandom(300).hex()}).encode() for number in range(50_000)]
CONTENT = b"".join(row + b"\n" for row in ROWS)


async def written(objects: OutputObjects, content: bytes = CONTENT) -> str:
    async with OutputWriter(objects, SCOPE, what="rows", kind="rows") as writer:
        for start in range(0, len(content), 700_000):
            await writer.write(content[start : start + 700_000])
        return (await writer.finish(content_type="application/x-ndjson", ttl=TTL)).locator


async def test_rows_are_written_read_and_sliced(objects: OutputObjects) -> None:
    reader = await open_output(objects, await written(objects), CALLER.id)
    assert len(reader.manifest.parts) == 4
    assert await bytes_of(reader) == CONTENT
    assert await rows_of(reader, 31_000, 100) == ROWS[31_000:31_100]
    assert await verify_output(objects, reader.manifest) == ()


async def test_an_interrupted_writing_goes_on_where_it_was(objects: OutputObjects) -> None:
    async with OutputWriter(objects, SCOPE, what="rows", kind="rows") as writer:
        await writer.write(CONTENT[: 2 * len(CONTENT) // 3])
    stored = await keys_of(objects, "parts")
    async with OutputWriter(objects, SCOPE, what="rows", kind="rows") as writer:
        begun = await writer.resume()
        assert 0 < begun.rows < len(ROWS)
        await writer.write(CONTENT[begun.raw_size :])
        manifest = await writer.finish(content_type="application/x-ndjson", ttl=TTL)
    assert await rows_of(await open_output(objects, manifest.locator, CALLER.id)) == ROWS
    # What had been stored is still what it was, and nothing else lies about.
    assert set(stored) <= {part.key for part in manifest.parts}
    assert await keys_of(objects, "parts") == [part.key for part in manifest.parts]


async def test_storing_the_same_at_once_from_two_workers_gives_one_output(objects: OutputObjects) -> None:
    first, second = await asyncio.gather(written(objects), written(objects))
    assert first == second
    reader = await open_output(objects, first, CALLER.id)
    assert await keys_of(objects, "parts") == [part.key for part in reader.manifest.parts]


async def test_an_output_about_to_expire_is_stored_anew(objects: OutputObjects) -> None:
    first = await open_output(objects, await written(objects, CONTENT[: 10 * len(ROWS[0])]), CALLER.id)
    async with OutputWriter(objects, SCOPE, what="rows", kind="rows") as writer:
        await writer.write(CONTENT[: 10 * len(ROWS[0])])
        longer = await writer.finish(content_type="application/x-ndjson", ttl=timedelta(days=30))
    assert longer.locator == first.manifest.locator
    assert longer.expires_at > first.manifest.expires_at
    assert (await open_output(objects, longer.locator, CALLER.id)).manifest == longer


async def test_damage_is_found_on_a_real_store(objects: OutputObjects) -> None:
    reader = await open_output(objects, await written(objects), CALLER.id)
    first, second, third, _ = reader.manifest.parts
    cut = (await objects.get(first.key) or b"")[:-100]
    changed = bytearray(await objects.get(second.key) or b"")
    changed[1_000] ^= 1
    await objects.put(first.key, cut)
    await objects.put(second.key, bytes(changed))
    await objects.delete([third.key])
    for offset in (0, first.rows, first.rows + second.rows):
        with pytest.raises(OutputDamaged):
            await rows_of(reader, offset, 1)
    assert len(await verify_output(objects, reader.manifest)) >= 3


async def test_deleting_what_is_gone_is_no_error(objects: OutputObjects) -> None:
    await objects.put("parts/a/b.c/00000.d.zst", b"1")
    await objects.delete(["parts/a/b.c/00000.d.zst", "parts/a/b.c/00001.d.zst"])
    await objects.delete(["parts/a/b.c/00000.d.zst"])
    assert await keys_of(objects) == []
    assert await objects.staged_leftovers() == ()


async def test_a_store_that_does_not_answer_is_worth_a_retry(s3_server: S3Server) -> None:
    options = {**s3_server.options, "aws_endpoint_url": "http://127.0.0.1:9"}
    with pytest.raises(StoreUnavailable):
        await OutputObjects.open(s3_server.url("x"), **options).get("manifests/x")


async def test_a_store_that_refuses_access_says_so(s3_server: S3Server) -> None:
    options = {**s3_server.options, "aws_secret_access_key": "wrong"}
    with pytest.raises(PermissionError) as refused:
        await OutputObjects.open(s3_server.url("x"), **options).put("manifests/x", b"")
    assert "wrong" not in str(refused.value)


async def test_credentials_come_from_the_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    objects = OutputObjects.open(s3_server.url("from-environment"))
    await objects.put("a/b", b"1")
    assert await objects.get("a/b") == b"1"


async def test_an_unknown_locator_is_unknown_on_a_real_store(objects: OutputObjects) -> None:
    locator = await written(objects, CONTENT[:700])
    await objects.delete(await keys_of(objects))
    with pytest.raises(OutputError) as refused:
        await open_output(objects, locator, CALLER.id)
    assert refused.value.reason == "unknown"


WRITES_FOR_EVER = """
import asyncio, sys
from outlast.activities.object_store import OutputObjects

async def main():
    objects = OutputObjects.open(sys.argv[1])
    while True:
        await objects.put("parts/a/b.c/00000.d.zst", bytes(64_000_000))

asyncio.run(main())
"""


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def killed_in_the_middle(tmp_path: Path) -> Path:
    """The folder of a store whose writer was killed while it wrote an object."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES_FOR_EVER, str(tmp_path)], cwd=ROOT, preexec_fn=die_with_parent()
    )
    try:
        asyncio.run(eventually(lambda: list(tmp_path.rglob("*#*")), interval_seconds=0.001))
    finally:
        process.kill()
        process.wait()
    return tmp_path


async def test_what_a_killed_writing_leaves_on_disk_is_known_as_such_and_can_be_removed(
    killed_in_the_middle: Path,
) -> None:
    objects = OutputObjects.open(str(killed_in_the_middle))
    listed = set(await keys_of(objects))
    leftovers = {left.key for left in await objects.staged_leftovers()}
    # Whatever the moment: each file is either a whole object or known as a leftover.
    assert files_below(killed_in_the_middle) == listed | leftovers
    assert {await objects.size(key) for key in listed} <= {64_000_000}
    await objects.delete([*listed, *leftovers])
    assert files_below(killed_in_the_middle) == set()
