"""What the platform refuses, in the words that clients of the peer match on."""

from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import ODD_VALUES_ON_PURPOSE, REFUSED_ON_PURPOSE
from tests.contract.peer.test_answers import beginning, called, comparable, unlike_errors
from tests.support.http.mcp_wire import LEGACY, MODERN
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
QUERY = "?tools=actors,runs,storage,tasks,outlast/sleeper"
SLEEPER = "outlast/sleeper"
REFUSALS = {
    "not rented": (403, "actor-is-not-rented", "You must rent a paid Actor in order to run it."),
    "forbidden": (403, "insufficient-permissions", "Insufficient permissions for the Actor."),
    "unpaid": (402, "not-enough-usage-to-run-paid-actor", "You have exceeded your remaining usage."),
    "bad token": (401, "user-or-token-not-found", "User was not found or authentication token is not valid"),
    "full permissions": (
        403,
        "full-permission-actor-not-approved",
        "This Actor needs your approval. Approve here: https://console.apify.com/actors/x",
    ),
    "bad build": (400, "invalid-input", "Input is not valid: Field input.seconds must be >= 0"),
}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "call-actor": ("call-actor", {"actor": SLEEPER, "input": {"seconds": 0}}),
    "an Actor's tool": ("outlast--sleeper", {"seconds": 0}),
}
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "a run": ("get-actor-run", {"runId": "nothingHere12345x"}),
    "a log": ("get-actor-run-log", {"runId": "nothingHere12345x"}),
    "an abort": ("abort-actor-run", {"runId": "nothingHere12345x"}),
    "a dataset": ("get-dataset", {"datasetId": "nothingHere12345x"}),
    "items": ("get-dataset-items", {"datasetId": "nothingHere12345x"}),
    "a store": ("get-key-value-store", {"keyValueStoreId": "nothingHere12345x"}),
    "a record": ("get-key-value-store-record", {"keyValueStoreId": "nothingHere12345x", "recordKey": "x"}),
    "runs": ("get-actor-run-list", {}),
    "a task": ("get-actor-task", {"taskId": "nothingHere12345x"}),
}


async def refused_by_both(both: Both, revision: str, tool: str, arguments: dict[str, Any]) -> list[str]:
    """How the answers of both to one call differ; none when they are the same to whoever matches on them."""
    wires = both.wires(revision, QUERY)
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    theirs, ours = [await called(wire, tool, arguments) for wire in wires]
    found = unlike_errors(theirs, ours)
    texts = [beginning(tool, answer) for answer in (theirs, ours)]
    return found if texts[0] == texts[1] else [*found, f"the peer says {texts[0]}, ours {texts[1]}"]


@pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
async def test_refused_starts_are_told_as_the_peer_tells_them(both: Both, service: Service, revision: str) -> None:
    found: dict[str, list[str]] = {}
    for refusal, (status, kind, message) in REFUSALS.items():
        for call, (tool, arguments) in CALLS.items():
            service.sandbox.order_fault(
                "status", method="POST", path="/runs$", status=status, type=kind, message=message
            )
            try:
                found[f"{call}: {refusal}"] = await refused_by_both(both, revision, tool, arguments)
            finally:
                service.sandbox.restore()
    different = [f"{label}: {line}" for label, lines in found.items() for line in lines]
    unexplained = [line for line in different if not line.startswith(tuple(REFUSED_ON_PURPOSE))]
    assert not unexplained, "\n".join(unexplained)


async def test_refused_reads_are_told_as_the_peer_tells_them(both: Both, service: Service) -> None:
    found: dict[str, list[str]] = {}
    for refusal in ("forbidden", "unpaid"):
        status, kind, message = REFUSALS[refusal]
        for read, (tool, arguments) in READS.items():
            service.sandbox.order_fault(
                "status",
                path="^/v2/(actor-runs|logs|datasets|key-value-stores|actor-tasks)",
                status=status,
                type=kind,
                message=message,
            )
            try:
                found[f"{read}: {refusal}"] = await refused_by_both(both, MODERN, tool, arguments)
            finally:
                service.sandbox.restore()
    different = [f"{label}: {line}" for label, lines in found.items() for line in lines]
    unexplained = [line for line in different if not line.startswith(tuple(REFUSED_ON_PURPOSE))]
    assert not unexplained, "\n".join(unexplained)


NO_ID = "nothingHere12345x"
ODD_VALUES: dict[str, tuple[str, dict[str, Any]]] = {
    "a negative offset of nothing": ("get-dataset-items", {"datasetId": NO_ID, "offset": -1}),
    "a negative offset of items": ("get-dataset-items", {"datasetId": "$dataset", "offset": -1}),
    "a negative limit of items": ("get-dataset-items", {"datasetId": "$dataset", "limit": -1}),
    "a negative offset of datasets": ("get-dataset-list", {"offset": -1}),
    "a negative limit of stores": ("get-key-value-store-list", {"limit": -1}),
    "an offset of one and a half": ("get-dataset-items", {"datasetId": "$dataset", "offset": 1.5}),
    "a negative offset of runs": ("get-actor-run-list", {"offset": -1}),
    "a negative limit of runs": ("get-actor-run-list", {"limit": -1}),
    "half an offset of runs": ("get-actor-run-list", {"offset": 1_000.5}),
    "a blank run": ("get-actor-run", {"runId": " "}),
    "a blank dataset": ("get-dataset", {"datasetId": " "}),
    "a blank store": ("get-key-value-store", {"keyValueStoreId": " "}),
    "a blank record": ("get-key-value-store-record", {"keyValueStoreId": NO_ID, "recordKey": " "}),
    "a blank task": ("get-actor-task", {"taskId": " "}),
    "blanks around a run": ("get-actor-run", {"runId": f" {NO_ID} "}),
    "blanks around a dataset": ("get-dataset", {"datasetId": f" {NO_ID} "}),
    "a change of nothing": ("update-actor-task", {"taskId": NO_ID}),
    "a long name of a tool": ("x" * 2_000, {}),
}


def told(tool: str, answer: dict[str, Any]) -> object:
    """What a client sees of an answer: whether it is an error, and the words that it may match on."""
    if "code" in answer or answer.get("isError"):
        return "refused", *beginning(tool, answer)
    shape = {key: kind for key, kind in comparable(answer).items() if key != "isError"}
    return "answered", shape, answer["structuredContent"].get("offset")


async def test_odd_values_are_told_as_the_peer_tells_them(both: Both) -> None:
    wires = both.wires(MODERN, QUERY)
    run = (await called(wires[0], *CALLS["call-actor"]))["structuredContent"]
    dataset = run["storages"]["datasets"]["default"]["id"]
    found: dict[str, str] = {}
    for label, (tool, arguments) in ODD_VALUES.items():
        given = {name: dataset if value == "$dataset" else value for name, value in arguments.items()}
        theirs, ours = [told(tool, await called(wire, tool, given)) for wire in wires]
        if theirs != ours:
            found[label] = f"{label}: the peer says {str(theirs)[:300]}, ours {str(ours)[:300]}"
    assert set(found) == set(ODD_VALUES_ON_PURPOSE), "\n".join(found.values())
