"""Resources, prompts and instructions beside those of the peer: addresses of the platform's API, and their errors."""

import base64
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import OWN_TEMPLATES, SAID_BY_PEER, any_address
from tests.contract.peer.test_answers import called, connected, unexplained
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.stacks.api_server import connect
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
TINY = base64.b64decode("iVBORw0KGgo=")


async def read(wire: Wire, uri: str) -> dict[str, Any]:
    """What is read, or the error."""
    try:
        result = await wire.request("resources/read", {"uri": uri})
    except WireError as error:
        return {"code": error.code, "message": str(error).partition(": ")[2], "data": error.data}
    return {name: value for name, value in result.items() if name != "_meta"}


def put_record(service: Service, store: str, key: str, content: bytes, content_type: str) -> None:
    headers = {"Authorization": f"Bearer {service.sandbox.token}", "Content-Type": content_type}
    url = f"{service.sandbox.url}/v2/key-value-stores/{store}/records/{key}"
    httpx.put(url, content=content, headers=headers, trust_env=False, timeout=180).raise_for_status()


@REVISIONS
async def test_templates_have_the_same_addresses(both: Both, revision: str) -> None:
    peer, ours = [
        {entry["name"]: entry for entry in (await wire.request("resources/templates/list"))["resourceTemplates"]}
        for wire in await connected(both, revision)
    ]
    assert ours.keys() - peer.keys() == OWN_TEMPLATES
    for name, entry in peer.items():
        assert {**ours[name], "description": ""} == {**entry, "description": ""}


@REVISIONS
async def test_addresses_are_read_as_the_platform_answers_them(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, revision)
    run = (await called(wires[0], "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0, "rows": 3}}))[
        "structuredContent"
    ]
    dataset, store = (run["storages"][kind]["default"]["id"] for kind in ("datasets", "keyValueStores"))
    put_record(service, store, "picture", TINY, "image/png")
    put_record(service, store, "page", "<p>Grüße</p>".encode("latin-1"), "text/html; charset=latin1")
    put_record(service, store, "large", b"x" * 300_000, "text/plain")
    root = f"{service.sandbox.url}/v2"
    for path in (
        f"datasets/{dataset}/items?limit=2&offset=1",
        f"datasets/{dataset}/items?format=csv&fields=index",
        f"key-value-stores/{store}/records/INPUT",
        f"key-value-stores/{store}/records/picture",
        f"key-value-stores/{store}/records/page",
        f"key-value-stores/{store}/keys?limit=1",
        f"logs/{run['runId']}",
        f"actor-runs/{run['runId']}/dataset/items",
        f"key-value-stores/{store}/records/nope",
        "datasets/nope/items",
        "logs/nope",
    ):
        theirs, mine = [await read(wire, f"{root}/{path}") for wire in wires]
        assert mine == theirs, path
    for path in (f"actor-runs/{run['runId']}", f"datasets/{dataset}", f"key-value-stores/{store}"):
        theirs, mine = [(await read(wire, f"{root}/{path}"))["contents"][0] for wire in wires]
        assert (mine["uri"], mine["mimeType"]) == (theirs["uri"], theirs["mimeType"])
        assert "urlSigningSecretKey" not in mine["text"]
    large = [(await read(wire, f"{root}/key-value-stores/{store}/records/large"))["contents"][0] for wire in wires]
    assert [entry["mimeType"] for entry in large] == ["text/plain", "text/plain"]
    assert len(large[1]["text"]) < 1_000
    assert all("signature=" in entry["text"] for entry in large)


@REVISIONS
async def test_files_come_as_what_they_are(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, revision)
    run = await called(wires[1], "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0}})
    store = run["structuredContent"]["storages"]["keyValueStores"]["default"]["id"]
    for key, content_type in (("picture", "Image/PNG"), ("sound", "audio/mpeg"), ("file", "application/zip; a=b")):
        put_record(service, store, key, TINY, content_type)
        given = {"keyValueStoreId": store, "recordKey": key}
        theirs, ours = [await called(wire, "get-key-value-store-record", given) for wire in wires]
        assert unexplained("a file", theirs, ours) == [], key
        assert ours["content"] == theirs["content"]
        texts = ("summary",)
        assert [value for name, value in ours["structuredContent"].items() if name not in texts] == [
            value for name, value in theirs["structuredContent"].items() if name not in texts
        ]


@REVISIONS
async def test_a_large_record_is_a_link_that_needs_no_token(both: Both, service: Service, revision: str) -> None:
    """It reads this record and no other, and stands in no history."""
    wires = await connected(both, revision)
    run = await called(wires[1], "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0}})
    store = run["structuredContent"]["storages"]["keyValueStores"]["default"]["id"]
    files = {"a-large-file.bin": b"\0\1" * 150_000, "other.bin": b"\2\3" * 150_000}
    for key, content in files.items():
        put_record(service, store, key, content, "application/octet-stream")
    given = {"keyValueStoreId": store, "recordKey": "a-large-file.bin"}
    answers = [await called(wire, "get-key-value-store-record", given) for wire in wires]
    assert unexplained("a large record", *answers) == []
    links = [next(block for block in answer["content"] if block["type"] == "resource_link") for answer in answers]
    assert [sorted(link) for link in links] == [sorted(links[0])] * 2
    signatures = [parse_qs(urlsplit(link["uri"]).query)["signature"] for link in links]
    assert signatures[0] == signatures[1]
    async with httpx.AsyncClient(trust_env=False, timeout=180) as anybody:
        read_by_link = await anybody.get(links[1]["uri"])
        other = await anybody.get(links[1]["uri"].replace("a-large-file.bin", "other.bin"))
    assert read_by_link.content == files["a-large-file.bin"]
    assert other.status_code == 401
    temporal = await connect(service.temporal_address)
    history = await temporal.get_workflow_handle(answers[1]["_meta"]["outlast/taskId"]).fetch_history()
    assert "resource_link" in decoded_payloads(history.to_json())
    assert signatures[1][0] not in history.to_json() + decoded_payloads(history.to_json())


def decoded_payloads(history: str) -> str:
    """What the payloads of a history say."""
    found = re.findall(r'"data": ?"([A-Za-z0-9+/=]+)"', history)
    return "\n".join(base64.b64decode(data).decode(errors="replace") for data in found)


@REVISIONS
async def test_what_cannot_be_read_has_the_same_codes_and_words(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, revision)
    root = service.sandbox.url
    for uri in (
        "https://example.com/v2/datasets/x/items",
        root.replace("http://", "http://user:password@") + "/v2/datasets/x/items",
        "foo://bar",
        "outlast://tasks/nothing",
        *any_address(root),
    ):
        theirs, mine = [await read(wire, uri) for wire in wires]
        if uri in any_address(root):
            assert "Failed to read" in mine["message"], mine
            continue
        assert (mine["code"], mine["data"]) == (theirs["code"], theirs["data"]), uri
        words = theirs["message"].partition("URLs")[0]
        assert mine["message"].startswith(words), (theirs, mine)
    service.sandbox.order_fault("status", path="/logs/", method="GET", status=503, times=20)
    try:
        theirs, mine = [await read(wire, f"{root}/v2/logs/some") for wire in wires]
    finally:
        service.sandbox.clear_faults()
    assert (mine["code"], mine["message"].partition("HTTP 503")[0]) == (
        theirs["code"],
        theirs["message"].partition("HTTP 503")[0],
    )
    for wire in wires:
        with pytest.raises(WireError, match="Prompt x not found") as refused:
            await wire.request("prompts/get", {"name": "x"})
        assert refused.value.code == -32602


async def test_an_address_does_nothing_but_read(both: Both, service: Service) -> None:
    """A platform may take another method for a request from its address: such a parameter does not get there."""
    _, ours = await connected(both, LEGACY)
    run = (await called(ours, "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0}}))["structuredContent"]
    address = f"{service.sandbox.url}/v2/datasets/{run['storages']['datasets']['default']['id']}"
    for query in ("method=DELETE", "METHOD=DELETE", "limit=1&_method=DELETE", "stream=1"):
        refused = await read(ours, f"{address}?{query}")
        assert refused["code"] == -32602
        assert "reads take no parameter" in refused["message"], refused
    assert "contents" in await read(ours, address)


@REVISIONS
async def test_instructions_say_what_the_peers_say(both: Both, revision: str) -> None:
    """Of the same things, and of no tool that is not there; the words are ours."""
    for query in ("?tools=actors,docs,runs,storage,tasks,schedules", "?tools=docs"):
        told: list[str] = []
        for wire in both.wires(revision, query):
            hello = await (wire.initialize() if revision == LEGACY else wire.request("server/discover"))
            told.append(hello["instructions"].lower())
        for word in SAID_BY_PEER:
            assert word in told[0], word
            assert word in told[1], word
    assert "call-actor" not in told[1]
