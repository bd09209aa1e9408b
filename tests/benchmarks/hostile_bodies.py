"""`/healthz` while one caller posts bodies full of unknown fields, against `/healthz` of an idle API."""

import asyncio
import json
import statistics
import time

import httpx

from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import running_system

_IDLE_REQUESTS = 300
_ATTACKERS = 4
_BODIES_EACH = 10
_UNDER = Target("at most", 2_000)
FIELDS = {"over the limit": 300_000, "within the limit": 90_000}


async def measure_hostile_bodies() -> Finding:
    """Each kind of body from several connections at once."""
    async with running_system() as system, _client(str(system.stack.addresses.api_url)) as http:
        figures = [Figure("idle: p99", _p99([await _health(http) for _ in range(_IDLE_REQUESTS)]), "ms")]
        for kind, fields in FIELDS.items():
            figures.append(Figure(f"fields {kind}: p99", _p99(await _attacked(http, fields)), "ms", _UNDER))
    return Finding("hostile-bodies", tuple(figures), {"attackers": _ATTACKERS, "bodies each": _BODIES_EACH})


def _client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, trust_env=False, timeout=60)


async def _attacked(http: httpx.AsyncClient, fields: int) -> list[float]:
    body = json.dumps({"tool": "call-actor", **{f"unknown{number}": number for number in range(fields)}}).encode()

    async def attack() -> None:
        for _ in range(_BODIES_EACH):
            await http.post("/v1/tasks", content=body, headers={"content-type": "application/json"})

    attacks = asyncio.gather(*(attack() for _ in range(_ATTACKERS)))
    taken: list[float] = []
    while not attacks.done():
        taken.append(await _health(http))
    await attacks
    return taken


async def _health(http: httpx.AsyncClient) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    (await http.get("/healthz")).raise_for_status()
    return (time.perf_counter() - began) * 1_000


def _p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[-1]
