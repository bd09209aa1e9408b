"""Resources, prompts and instructions beside those of the peer: addresses of the platform's API, and their errors."""

import base64
from typing import Any

import httpx
import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import OWN_TEMPLATES, SAID_BY_PEER, any_address
from tests.contract.peer.test_answers import called, connected
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])
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
    httpx.put(url, content=content, headers=headers, trust_env=False).raise_for_status()


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
