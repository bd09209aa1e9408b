"""Stored outputs: whole, in slices, as rows, across cut connections."""

import json
from pathlib import Path
from typing import Any

import pytest

from outlast.client import AsyncClient, Client, InvalidRequest

ROWS = 300


@pytest.fixture(scope="module")
def stored() -> dict[str, str]:
    return {}


@pytest.fixture
def locator(client: Client, stored: dict[str, str]) -> str:
    """An output of many rows, stored once."""
    if "locator" not in stored:
        answer = client.call("call-actor", {"actor": "outlast/big-table", "input": {"rows": ROWS, "columns": "narrow"}})
        stored["locator"] = str((answer.structured or {})["locator"])
    return stored["locator"]


def test_it_comes_back_whole_in_memory_and_in_a_file(client: Client, locator: str, tmp_path: Path) -> None:
    known = client.outputs.info(locator)
    content = client.outputs.read(locator)
    assert (known.kind, known.count, len(content)) == ("rows", ROWS, known.size_bytes)
    assert client.outputs.save(locator, tmp_path / "rows.jsonl") == known.size_bytes
    assert (tmp_path / "rows.jsonl").read_bytes() == content
    assert list(tmp_path.iterdir()) == [tmp_path / "rows.jsonl"]


async def test_slices_are_slices_of_the_whole(async_client: AsyncClient, locator: str) -> None:
    whole = await async_client.outputs.read(locator)
    assert await async_client.outputs.read(locator, 10, 500) == whole[10:500]
    assert await async_client.outputs.read(locator, 1_000) == whole[1_000:]


def test_rows_are_iterated(client: Client, locator: str) -> None:
    whole: list[Any] = [json.loads(line) for line in client.outputs.read(locator).splitlines()]
    name = next(iter(whole[0]))
    assert list(client.outputs.rows(locator)) == whole
    assert list(client.outputs.rows(locator, offset=7, limit=5)) == whole[7:12]
    assert list(client.outputs.rows(locator, limit=2, fields=(name,))) == [{name: row[name]} for row in whole[:2]]
    assert list(client.outputs.rows(locator, limit=3, query=name)) == [row[name] for row in whole[:3]]


def test_a_file_is_not_left_behind_when_there_is_no_output(client: Client, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        client.outputs.save("out_nothinglikethis", tmp_path / "rows.jsonl")
    assert list(tmp_path.iterdir()) == []
