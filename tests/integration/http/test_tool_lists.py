"""`tools/list` is made once for each offer, and every client gets it whole."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from outlast.api.mcp import server
from outlast.api.settings import ApiSettings
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.ports import free_port
from tests.support.stacks.api_server import connect, serving_api
from tests.support.stacks.service import SEAL_KEYS

ANN, BOB = ({"Authorization": f"Bearer {name}-0123456789abcdef"} for name in ("ann", "bob"))
IDS = (1, 0, -3, "", 'quote " and {"outlast-tool-list":"x"}', "ü\u2028")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tools each list had that was made."""
    lists: list[int] = []
    entries = server.tool_entries

    def counting(*args: Any, **options: Any) -> list[dict[str, Any]]:
        found = entries(*args, **options)
        lists.append(len(found))
        return found

    monkeypatch.setattr(server, "tool_entries", counting)
    return lists


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    settings = ApiSettings(
        data_dir=tmp_path,
        seal_keys=SecretStr(SEAL_KEYS),
        api_keys=SecretStr("ann:ann-0123456789abcdef,bob:bob-0123456789abcdef"),
        default_actors="",
    )
    async with serving_api(await connect(f"127.0.0.1:{free_port()}", lazy=True), settings, whole=True) as http:
        yield http


async def client_of(api: httpx.AsyncClient, caller: dict[str, str], revision: str, query: str = "") -> Wire:
    api.headers.update(caller)
    wire = Wire(api, revision, query)
    if revision == LEGACY:
        await wire.initialize()
    return wire


async def raw(api: httpx.AsyncClient, wire: Wire, query: str, request_id: object) -> dict[str, Any]:
    """The whole answer to a `tools/list` with this id."""
    body = {**wire._body("tools/list", {}, {}, 1), "id": request_id}
    answer = await api.post(f"/mcp{query}", json=body, headers=wire._headers("tools/list", body))
    text = answer.text.partition("data: ")[2] if "event-stream" in answer.headers["content-type"] else answer.text
    return json.loads(text)


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_list_is_made_once_for_each_offer(api: httpx.AsyncClient, made: list[int], revision: str) -> None:
    ann = await client_of(api, ANN, revision)
    made.clear()
    first = await raw(api, ann, "", "first")
    for request_id in IDS:
        assert await raw(api, ann, "", request_id) == {**first, "id": request_id}
    bob = await client_of(api, BOB, revision)
    assert await raw(api, bob, "", "first") == first
    assert made == [len(first["result"]["tools"])]
    docs = await client_of(api, BOB, revision, "?tools=docs")
    fewer = await raw(api, docs, "?tools=docs", 1)
    assert 0 < len(fewer["result"]["tools"]) < len(first["result"]["tools"])
    assert len(made) == 2


async def test_both_revisions_have_lists_of_their_own(api: httpx.AsyncClient) -> None:
    modern, legacy = await client_of(api, ANN, MODERN), await client_of(api, ANN, LEGACY)
    for _ in range(2):
        now, before = await modern.request("tools/list"), await legacy.request("tools/list")
        assert (now["resultType"], "resultType" in before) == ("complete", False)
        assert [tool["name"] for tool in now["tools"]] == [tool["name"] for tool in before["tools"]]
        assert any("execution" in tool for tool in before["tools"])
        assert not any("execution" in tool for tool in now["tools"])


@pytest.mark.parametrize("revision", [MODERN, LEGACY])
async def test_a_request_that_is_wrong_is_refused_although_the_list_is_known(
    api: httpx.AsyncClient, revision: str
) -> None:
    wire = await client_of(api, ANN, revision)
    for _ in range(2):
        with pytest.raises(WireError) as refused:
            await wire.request("tools/list", {"cursor": 5})
        assert refused.value.code == -32602
        assert (await wire.request("tools/list"))["tools"]


async def test_a_call_of_the_new_revision_finds_the_list_made(api: httpx.AsyncClient, made: list[int]) -> None:
    """The SDK looks into it for headers that repeat arguments."""
    wire = await client_of(api, ANN, MODERN)
    await wire.request("tools/list")
    for number in range(3):
        call = {"name": "get-task", "arguments": {"taskId": f"task-{number}"}}
        with suppress(WireError):  # no task store is there
            await wire.request("tools/call", call)
    assert len(made) == 1
