"""Connections that pay per call, beside those of the peer: lists, unpaid calls, paid calls, and refused payments."""

import json
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.shapes import differences, without_texts
from tests.contract.peer.test_answers import beginning, called, comparable, unexplained
from tests.contract.peer.test_lists import listed
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.service import Service
from tests.support.x402_wallet import Wallet, header_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])
ALL = "tools=actors,docs,runs,storage,tasks,schedules,outlast/sleeper"
PAID = {
    "call-actor",
    "outlast--sleeper",
    "get-actor-run",
    "get-actor-run-log",
    "abort-actor-run",
    "get-dataset",
    "get-dataset-items",
    "get-dataset-schema",
    "get-key-value-store",
    "get-key-value-store-keys",
    "get-key-value-store-record",
}
CALL = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "steps": 2, "rows": 2}}
UNPAID = {
    "call-actor": CALL,
    "outlast--sleeper": {"seconds": 0},
    "get-actor-run": {"runId": "x"},
    "get-dataset-items": {"datasetId": "x"},
}


async def connected(both: Both, payment: str, revision: str) -> tuple[Wire, Wire]:
    wires = both.wires(revision, f"?{ALL}&payment={payment}")
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    return wires


def paid_call(payment: dict[str, Any] | None, name: str = "call-actor", **more: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {**CALL, **more}, "_meta": {"x402/payment": payment}}


@REVISIONS
@pytest.mark.parametrize("payment", ["skyfire", "x402"])
async def test_paid_tools_ask_for_payment_in_the_same_places(both: Both, payment: str, revision: str) -> None:
    peer, ours = [
        {tool["name"]: without_texts(tool) for tool in await listed(wire)}
        for wire in both.wires(revision, f"?{ALL}&payment={payment}")
    ]
    assert {name: list(differences(peer[name], tool)) for name, tool in ours.items() if peer[name] != tool} == {}
    if payment == "skyfire":
        asking = {name for name, tool in ours.items() if "skyfire-pay-id" in tool["inputSchema"]["properties"]}
    else:
        asking = {name for name, tool in ours.items() if tool.get("_meta", {}).get("x402", {}).get("accepts")}
        assert {ours[name]["_meta"]["x402"]["scheme"] for name in asking} == {"exact"}
    assert asking == PAID


@REVISIONS
@pytest.mark.parametrize("payment", ["skyfire", "x402"])
async def test_a_call_without_payment_is_answered_alike(both: Both, payment: str, revision: str) -> None:
    peer, ours = await connected(both, payment, revision)
    for name, arguments in UNPAID.items():
        theirs, mine = [await called(wire, name, arguments) for wire in (peer, ours)]
        assert list(differences(comparable(theirs), comparable(mine))) == [], name
        assert mine["isError"]
        if payment == "x402":
            assert mine["structuredContent"] == theirs["structuredContent"]
            assert json.loads(mine["content"][0]["text"]) == json.loads(theirs["content"][0]["text"])
        else:
            told = [answer["content"][0]["text"].partition(". ")[0] for answer in (theirs, mine)]
            assert told == ['Missing required "skyfire-pay-id" field'] * 2
    wrong = [await called(wire, "call-actor", {"input": {}}) for wire in (peer, ours)]
    assert [answer["code"] for answer in wrong] == [-32602, -32602]
    free = [await called(wire, "search-actors", {"keywords": "sleeper"}) for wire in (peer, ours)]
    assert unexplained("search", *free) == []


@REVISIONS
async def test_a_signed_payment_pays_for_one_call(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, "x402", revision)
    wallet = Wallet()
    payments = [wallet.payment() for _ in wires]
    answers = [
        await wire.request("tools/call", paid_call(payment)) for wire, payment in zip(wires, payments, strict=True)
    ]
    assert unexplained("a paid call", *answers) == []
    assert answers[1]["structuredContent"]["status"] == "SUCCEEDED"
    runs = [answer["structuredContent"]["runId"] for answer in answers]
    assert service.sandbox.paid_runs(wallet.payer) == set(runs)
    used = [await called(wire, "call-actor", CALL, _meta={"x402/payment": payments[1]}) for wire in wires]
    assert beginning("used", used[0]) == beginning("used", used[1])
    forged = wallet.payment()
    forged["payload"]["authorization"]["value"] = "9"
    for payment, reason in ((payments[0], "was used already; sign another one"), (forged, "is not valid")):
        meta = {"x402/payment": payment}
        refused = [await called(wire, "outlast--sleeper", {"seconds": 0}, _meta=meta) for wire in wires]
        assert unexplained("a refused payment", *refused) == []
        assert refused[1]["content"][0]["text"] == refused[0]["content"][0]["text"]
        assert refused[1]["content"][0]["text"].endswith(reason)
    read = [await called(wire, "get-actor-run", {"runId": runs[1]}, _meta={"x402/payment": forged}) for wire in wires]
    assert unexplained("a reading with a refused payment", *read) == []
    assert beginning("", read[1]) == beginning("", read[0])
    # What a run has written is read with another payment of the same wallet, which is not taken.
    reading = {"name": "get-actor-run", "arguments": {"runId": runs[1]}, "_meta": {"x402/payment": wallet.payment()}}
    read = [await wire.request("tools/call", reading) for wire in wires]
    assert unexplained("a paid reading", *read) == []
    assert read[1]["structuredContent"]["runId"] == runs[1]
    assert service.sandbox.paid_runs(wallet.payer) == set(runs)


@REVISIONS
async def test_a_payment_in_the_header_counts_after_one_in_meta(both: Both, service: Service, revision: str) -> None:
    _, ours = await connected(both, "x402", revision)
    in_header, in_meta = Wallet(), Wallet()
    header = {"PAYMENT-SIGNATURE": header_of(in_header.payment())}
    first = await ours.request("tools/call", paid_call(in_meta.payment()), headers=header)
    second = await ours.request("tools/call", paid_call(None), headers=header)
    for wallet, answer in ((in_meta, first), (in_header, second)):
        assert service.sandbox.paid_runs(wallet.payer) == {answer["structuredContent"]["runId"]}


async def test_a_skyfire_token_pays_for_the_run_and_reads_it(both: Both) -> None:
    wires = await connected(both, "skyfire", MODERN)
    token = {"skyfire-pay-id": "eyATokenOfTheContractTests"}
    answers = [await called(wire, "call-actor", {**CALL, **token}) for wire in wires]
    assert unexplained("a paid call", *answers) == []
    dataset = answers[1]["structuredContent"]["storages"]["datasets"]["default"]["id"]
    rows = [await called(wire, "get-dataset-items", {"datasetId": dataset, **token}) for wire in wires]
    assert unexplained("paid rows", *rows) == []
    assert rows[1]["structuredContent"]["itemCount"] == 2
    other = await called(wires[1], "get-dataset-items", {"datasetId": dataset, "skyfire-pay-id": "eyAnother"})
    assert other["isError"]
    guides = [(await wire.request("resources/list"))["resources"] for wire in wires]
    assert all("file://readme.md" in [entry["uri"] for entry in guide] for guide in guides)
    read = await wires[1].request("resources/read", {"uri": "file://readme.md"})
    assert "skyfire-pay-id" in read["contents"][0]["text"]


@pytest.mark.parametrize("payment", ["skyfire", "x402", ""])
async def test_actors_that_no_call_can_pay_are_not_found(both: Both, payment: str) -> None:
    """`allowsAgenticUsers` of the platform's search, which leaves out Actors in standby mode."""
    wires = await connected(both, payment, MODERN)
    answers = [await called(wire, "search-actors", {"keywords": "toolbox"}) for wire in wires]
    names = [[actor["fullName"] for actor in answer["structuredContent"]["actors"]] for answer in answers]
    assert names[0] == names[1]
    assert bool(names[1]) == (not payment)
