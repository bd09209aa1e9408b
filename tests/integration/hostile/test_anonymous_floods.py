"""Strangers send without end and without waiting for answers; the calls of somebody with a key stay quick."""

import time

import pytest

from tests.integration.hostile.conftest import KEYS
from tests.integration.hostile.test_attack import called
from tests.support.eventually import eventually
from tests.support.hostile.floods import flooding, request
from tests.support.stacks.service import Service

CONNECTIONS = 100
CALLS = 5
CALL_SECONDS = 5
"""How much longer each call may take. Without the limits it was 26 seconds, on a machine with nothing else to do."""
PER_SECOND = 50
BURST = 250
REFUSALS_PER_SECOND = 100
PROBES_PER_SECOND = 2 * CONNECTIONS

DOCUMENTS = [
    request("GET /openapi.json"),
    request("GET /docs/swagger-ui-bundle.js"),
    request("GET /mcp/server-card"),
    request("GET /.well-known/mcp/catalog.json"),
]
PROBES = [request("GET /healthz"), request("GET /readyz"), request("GET /metrics")]
REFUSED = [
    request("GET /nothing"),
    request("GET /v1/tasks"),
    request("POST /v1/tasks", "Content-Type: application/json", body="{}"),
    request("POST /mcp", "Content-Type: application/json", body="{}"),
    request("GET /v1/tasks", "Authorization: Bearer wrong"),
    request("POST /v1/tasks", "Origin: https://evil.example"),
    request("OPTIONS /v1/tasks"),
    b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
]


@pytest.mark.parametrize("kind", ["documents", "probes", "refused"])
async def test_calls_of_others_stay_quick_while_strangers_flood_the_server(service: Service, kind: str) -> None:
    requests = {"documents": DOCUMENTS, "probes": PROBES, "refused": REFUSED}[kind]
    async with service.http(KEYS["bob"]) as bob, service.http() as probe:

        async def has_room() -> bool:
            """True when the flood of another test has passed, and the document is made."""
            return (await probe.get("/openapi.json")).status_code == 200

        await eventually(has_room)

        async def calls() -> float:
            """The seconds that some calls take. Probes are answered well meanwhile."""
            seconds = 0.0
            for number in range(CALLS):
                began = time.monotonic()
                await called(bob, f"call {number}")
                seconds += time.monotonic() - began
                assert (await probe.get("/healthz")).status_code == 200
            return seconds

        await calls()
        alone = await calls()
        async with flooding(service.api_url, requests, connections=CONNECTIONS) as flood:
            await eventually(lambda: flood.answers.total() > BURST)
            flooded = await calls()
    assert flooded < 10 * alone + CALL_SECONDS * CALLS, (flooded, alone)
    late = max(REFUSALS_PER_SECOND, PROBES_PER_SECOND)
    assert flood.answers.total() < 2 * (BURST + (PER_SECOND + late) * flood.seconds), flood
    assert not any(status >= 500 and status != 503 for status in flood.answers), flood
