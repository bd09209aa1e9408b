"""Tasks as resources, read and watched by the SDK's own client in both revisions, and by hand where it hides things."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification, TextResourceContents

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.stacks.service import Service

REVISIONS = pytest.mark.parametrize("revision", ["legacy", MODERN])
QUESTION = {"tool": "confirm_delete", "arguments": {"filename": "a.txt"}}


def uri_of(task_id: str) -> str:
    return f"outlast://tasks/{task_id}"


async def asking_task(http: httpx.AsyncClient) -> str:
    """A task that waits for an answer: nothing of it changes by itself."""
    task_id = (await http.post("/v1/tasks", json=QUESTION)).json()["id"]

    async def asks() -> bool:
        return (await http.get(f"/v1/tasks/{task_id}")).json()["status"] == "input_required"

    await eventually(asks)
    return task_id


async def answer(http: httpx.AsyncClient, task_id: str) -> None:
    asked = (await http.get(f"/v1/tasks/{task_id}")).json()["input_requests"]
    answers = {key: {"action": "accept", "content": {"confirm": True}} for key in asked}
    (await http.post(f"/v1/tasks/{task_id}/input", json={"answers": answers})).raise_for_status()


async def read(mcp: Client, uri: str) -> dict[str, Any]:
    (content,) = (await mcp.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text)


@REVISIONS
async def test_a_task_can_be_read_as_a_resource(service: Service, http: httpx.AsyncClient, revision: str) -> None:
    task_id = await asking_task(http)
    async with Client(f"{service.api_url}/mcp", mode=revision) as mcp:
        templates = (await mcp.list_resource_templates()).resource_templates
        assert "outlast://tasks/{id}" in [template.uri_template for template in templates]
        asking = await read(mcp, uri_of(task_id))
        assert (asking["tool"], asking["status"]) == ("confirm_delete", "input_required")
        assert asking["inputRequests"]
        await answer(http, task_id)

        async def ended() -> dict[str, Any] | None:
            state = await read(mcp, uri_of(task_id))
            return state if state["status"] == "completed" else None

        state = await eventually(ended)  # also by a client that keeps what it has read: this is not to be kept
        assert state["result"]["content"][0]["text"] == "a.txt was deleted"


@REVISIONS
async def test_a_task_of_nobody_or_somebody_else_is_no_resource(
    service: Service, http: httpx.AsyncClient, stranger: httpx.AsyncClient, revision: str
) -> None:
    task_id = (await stranger.post("/v1/tasks", json=QUESTION)).json()["id"]
    async with Client(f"{service.api_url}/mcp", mode=revision) as mcp:
        for unknown in (uri_of(task_id), uri_of("no-such-task"), "outlast://tasks/", "outlast://other/x"):
            with pytest.raises(MCPError) as refused:
                await mcp.read_resource(unknown)
            assert refused.value.code == (-32002 if revision == "legacy" else -32602)


@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
async def test_a_session_hears_of_what_it_has_subscribed_to(service: Service, http: httpx.AsyncClient) -> None:
    watched, other = await asking_task(http), await asking_task(http)
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(message.params.uri)

    async with Client(f"{service.api_url}/mcp", mode="legacy", message_handler=on_message) as mcp:
        capabilities = mcp.server_capabilities.resources
        assert capabilities is not None
        assert capabilities.subscribe
        for task_id in (watched, other):
            await mcp.session.subscribe_resource(uri_of(task_id))  # pyright: ignore[reportDeprecated]
        await mcp.session.unsubscribe_resource(uri_of(other))  # pyright: ignore[reportDeprecated]
        await answer(http, other)
        await answer(http, watched)
        assert await asyncio.wait_for(heard.get(), 30) == uri_of(watched)
        assert (await read(mcp, uri_of(watched)))["status"] != "input_required"
        with pytest.raises(MCPError) as refused:
            await mcp.session.subscribe_resource(uri_of("no-such-task"))  # pyright: ignore[reportDeprecated]
        assert refused.value.code == -32002
    assert all(uri == uri_of(watched) for uri in (heard.get_nowait() for _ in range(heard.qsize())))


async def test_a_stream_hears_of_the_resources_that_it_names(service: Service, http: httpx.AsyncClient) -> None:
    watched, other = await asking_task(http), await asking_task(http)
    async with (
        Client(f"{service.api_url}/mcp", mode=MODERN) as mcp,
        mcp.listen(resource_subscriptions=[uri_of(watched), uri_of("no-such-task")]) as changes,
    ):
        assert changes.honored.resource_subscriptions == [uri_of(watched)]
        await answer(http, other)
        await answer(http, watched)
        assert await asyncio.wait_for(anext(changes), 30) == ResourceUpdated(uri=uri_of(watched))


async def test_the_past_is_no_news(http: httpx.AsyncClient) -> None:
    """Nothing is told of a task between subscribing and its next change, whatever has happened to it before."""
    task_id = await asking_task(http)
    heard: list[str] = []
    listen = {"notifications": {"resourceSubscriptions": [uri_of(task_id)], "toolsListChanged": True}}
    wire = Wire(http, MODERN, "?tools=experimental,runs")
    async with aclosing(wire.messages("subscriptions/listen", listen)) as messages:
        async for message in messages:
            heard.append(message["method"])
            if message["method"] == "notifications/subscriptions/acknowledged":
                await wire.request("tools/call", {"name": "add-actor", "arguments": {"actor": "outlast/big-table"}})
            elif message["method"] == "notifications/tools/list_changed":
                await answer(http, task_id)
            else:
                break
    assert heard[1:] == ["notifications/tools/list_changed", "notifications/resources/updated"]


SLOW_ROWS = {
    "tool": "call-actor",
    "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 4, "steps": 8, "rows": 8}},
}


async def rows_of(mcp: Client, uri: str) -> tuple[list[int], str, bool]:
    """The numbers of the rows that are read, the URI of those after them, and whether no further row comes."""
    (content,) = (await mcp.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/x-ndjson"
    meta = content.meta or {}
    numbers = [json.loads(line)["index"] for line in content.text.splitlines()]
    return numbers, meta["outlast/next"], meta["outlast/complete"]


async def read_to_the_end(mcp: Client, uri: str, next_update: Any) -> list[int]:
    """All rows, read each time that there are more."""
    found: list[int] = []
    is_complete = False
    while not is_complete:
        assert await asyncio.wait_for(next_update(), 60)
        more, uri, is_complete = await rows_of(mcp, uri)
        found += more
    return found


@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
async def test_a_session_reads_rows_as_it_hears_of_them(service: Service, http: httpx.AsyncClient) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.put_nowait(message.params.uri)

    async with Client(f"{service.api_url}/mcp", mode="legacy", message_handler=on_message) as mcp:
        uri = uri_of((await http.post("/v1/tasks", json=SLOW_ROWS)).json()["id"]) + "/rows"
        await mcp.session.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]
        assert await read_to_the_end(mcp, uri, heard.get) == list(range(8))


async def test_a_stream_tells_of_rows_that_are_read(service: Service, http: httpx.AsyncClient) -> None:
    async with Client(f"{service.api_url}/mcp", mode=MODERN) as mcp:
        templates = (await mcp.list_resource_templates()).resource_templates
        assert "outlast://tasks/{id}/rows{?after}" in [template.uri_template for template in templates]
        uri = uri_of((await http.post("/v1/tasks", json=SLOW_ROWS)).json()["id"]) + "/rows"
        async with mcp.listen(resource_subscriptions=[uri]) as changes:
            assert changes.honored.resource_subscriptions == [uri]
            assert await read_to_the_end(mcp, uri, lambda: anext(changes)) == list(range(8))


@REVISIONS
async def test_rows_are_read_in_parts_and_only_by_their_owner(
    service: Service, http: httpx.AsyncClient, stranger: httpx.AsyncClient, revision: str
) -> None:
    run_input = {"seconds": 0, "rows": 40, "rowBytes": 4_000}
    body = {"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": run_input}}
    task = (await http.post("/v1/tasks", json=body, headers={"Prefer": "wait=60"})).json()["task"]["id"]
    foreign = (await stranger.post("/v1/tasks", json=body, headers={"Prefer": "wait=60"})).json()["task"]["id"]
    async with Client(f"{service.api_url}/mcp", mode=revision) as mcp:
        uri, is_complete, parts = uri_of(task) + "/rows", False, list[list[int]]()
        while not is_complete:
            more, uri, is_complete = await rows_of(mcp, uri)
            parts.append(more)
        assert [number for part in parts for number in part] == list(range(40))
        assert len(parts) > 2
        for unknown in (uri_of(foreign) + "/rows", uri_of("no-such-task") + "/rows"):
            with pytest.raises(MCPError) as refused:
                await mcp.read_resource(unknown)
            assert refused.value.code == (-32002 if revision == "legacy" else -32602)
        with pytest.raises(MCPError, match="id of the last row"):
            await mcp.read_resource(uri_of(task) + "/rows?after=x.y")


async def test_subscribing_belongs_to_the_older_revision(wire: Wire) -> None:
    with pytest.raises(WireError) as refused:
        await wire.request("resources/subscribe", {"uri": "test://static-text"})
    assert refused.value.code == -32601


async def test_what_never_changes_can_be_subscribed_to(older: Wire) -> None:
    assert await older.request("resources/subscribe", {"uri": "test://static-text"}) == {}
    assert await older.request("resources/unsubscribe", {"uri": "test://static-text"}) == {}
    assert older.revision == LEGACY
