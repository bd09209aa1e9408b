"""What a hostile caller does to everybody else, all at once and as fast as it can, until it is stopped.

Each weapon goes on whatever it is answered: refusals are what it expects.
"""

import asyncio
import functools
import gc
import itertools
import json
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.support.eventually import eventually
from tests.support.http.api_client import bearer


def call(**fields: Any) -> bytes:
    """A tool call in the forms of REST and of MCP at once."""
    return json.dumps({"tool": "call-actor", "jsonrpc": "2.0", "id": 1, "method": "tools/call", **fields}).encode()


def actor_call(**arguments: Any) -> bytes:
    """A call of an Actor over REST."""
    return json.dumps({"tool": "call-actor", "arguments": arguments}).encode()


def unknown(count: int) -> dict[str, int]:
    """So many fields that nobody has asked for."""
    return {f"unknown{number}": number for number in range(count)}


_MAKERS: Mapping[str, Callable[[], bytes]] = {
    "fields": lambda: call(**unknown(300_000)),
    "objects": lambda: call(arguments={"input": [{}] * 2_000_000}),
    "depth": lambda: b'{"arguments": ' + b"[" * 2_000_000,
    "strings": lambda: b'{"arguments": "' + b'\\"' * 2_000_000,
    "fields within the limit": lambda: call(**unknown(90_000)),
    "fields inside": lambda: call(
        options=unknown(90_000), budgets=unknown(9), params={"name": "x", "_meta": unknown(90)}
    ),
    "wrong items": lambda: call(message=[1] * 90_000, tools=[{}] * 9, answers=unknown(9)),
    "control characters": lambda: call(**{"\x01" * 200 + str(number): 1 for number in range(5_000)}),
}
KINDS = tuple(_MAKERS)


@functools.cache
def body_of(kind: str) -> bytes:
    """One of the `KINDS`; made when it is first asked for, because all of them together take two seconds of a core."""
    return _MAKERS[kind]()


HOSTILE_ACTOR = "outlast/hostile"
"""Its folder is `tests/support/actors/hostile`: the platform has to offer it."""
_JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
_MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "call-actor"}
_HELD_CONNECTIONS = 300
_OPEN_STREAMS = 200
_FLOODING_CONNECTIONS = 20
_ROWS = 5_000
_QUERY = "[?contains(to_string(@), 'x')] | sort_by(@, &to_string(@)) | [*].[@, @, @] | reverse(@)"

_HOSTILE_INPUTS = [
    actor_call(actor=HOSTILE_ACTOR, input={"text": "a" * 40 + "!"}),
    actor_call(actor=HOSTILE_ACTOR, input={"rows": [{"n": number // 2} for number in range(20_000)]}),
    actor_call(actor=HOSTILE_ACTOR, input={"ways": {"value": 1}}),
]
_QUICK_CALL = json.dumps({"tool": "get-dataset-items", "arguments": {"datasetId": "absent"}}).encode()
_LARGE_CALL = actor_call(actor="outlast/absent", input={"rows": [{}] * 240_000})


@dataclass
class Attack:
    """A running attack. `answers` counts what was answered, by weapon and status."""

    url: str
    key: str
    answers: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    locator: str | None = None
    """A stored output of the caller's."""

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None)
        headers = bearer(key or self.key)
        return httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=120, limits=limits)

    def note(self, weapon: str, answer: httpx.Response) -> None:
        self.answers[weapon, str(answer.status_code)] += 1


Weapon = Callable[[Attack], Awaitable[None]]


@asynccontextmanager
async def under_attack(url: str, key: str, weapons: Mapping[str, Weapon] | None = None) -> AsyncGenerator[Attack]:
    """Attack the API at `url` as the caller with this key until the end of the block."""
    attack = Attack(url, key)
    running = [asyncio.create_task(_wielded(attack, name, weapon)) for name, weapon in (weapons or WEAPONS).items()]
    try:
        yield attack
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        running.clear()
        _forget_connections()


def _forget_connections() -> None:
    """Close what the cancelled requests have left open, without a word.

    A request that is cancelled while it connects may leave its connection to the garbage collector (httpcore), which
    would warn of it in the middle of some later test.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def _wielded(attack: Attack, name: str, weapon: Weapon) -> None:
    """Use it again and again. What breaks on the attacker's side does not count."""
    while True:
        try:
            await weapon(attack)
        except (httpx.HTTPError, OSError) as error:
            attack.answers[name, type(error).__name__] += 1
        await asyncio.sleep(0)


async def hostile_schemas(attack: Attack) -> None:
    """Patterns that backtrack, thousands of unique items, references with 2^40 ways."""
    async with attack.client() as http:
        answers = [http.post("/v1/tasks", content=body, headers=_JSON) for body in _HOSTILE_INPUTS]
        for answer in await asyncio.gather(*answers):
            attack.note("schemas", answer)


async def large_bodies(attack: Attack) -> None:
    """Unknown fields, empty objects, depth: on every front door at once."""
    async with attack.client() as http:
        for kind in KINDS:
            paths = ("/v1/tasks", "/v1/sessions", "/mcp")
            sent = [http.post(path, content=body_of(kind), headers={**_JSON, **_MODERN}) for path in paths]
            for answer in await asyncio.gather(*sent):
                attack.note("bodies", answer)


async def large_calls(attack: Attack) -> None:
    """Calls that are valid, and as large as may be: 240,000 empty objects."""
    async with attack.client() as http:
        attack.note("calls", await http.post("/v1/tasks", content=_LARGE_CALL, headers=_JSON))


async def long_ids(attack: Attack) -> None:
    """Ids of 100,000 characters, where an id is asked for."""
    long = "x" * 100_000
    async with attack.client() as http:
        calls = ({"tool": "get-actor-run", "arguments": {"runId": long}}, {"tool": long}, {"tool": "a", "mode": long})
        for body in calls:
            attack.note("ids", await http.post("/v1/tasks", json=body))
        attack.note("ids", await http.get("/v1/tasks", params={"session_id": long[:30_000]}))


async def request_flood(attack: Attack) -> None:
    """Lists and describes over many connections, without a pause."""
    async with attack.client() as http:

        async def one_connection() -> None:
            for _ in range(50):
                attack.note("flood", await http.get("/v1/tasks", params={"page_size": 200}))

        await asyncio.gather(*(one_connection() for _ in range(_FLOODING_CONNECTIONS)))


async def task_flood(attack: Attack) -> None:
    """Tasks by the hundred, which nobody waits for."""
    async with attack.client() as http:

        async def some() -> None:
            for _ in range(25):
                attack.note("tasks", await http.post("/v1/tasks", content=_QUICK_CALL, headers=_JSON))

        await asyncio.gather(*(some() for _ in range(_FLOODING_CONNECTIONS)))


async def stream_flood(attack: Attack) -> None:
    """Hundreds of event streams that stay open."""
    async with attack.client() as http:

        async def one_stream() -> None:
            async with http.stream("GET", "/v1/handoffs/events") as answer:
                attack.note("streams", answer)
                async for _ in answer.aiter_raw():
                    pass

        await asyncio.gather(*(one_stream() for _ in range(_OPEN_STREAMS)))


async def wrong_credentials(attack: Attack) -> None:
    """Guesses of keys, from the victim's own address."""
    for number in itertools.islice(_guesses, 50):
        async with attack.client(f"guessed-key-number-{number}") as http:
            attack.note("guesses", await http.get("/v1/tasks"))


async def half_requests(attack: Attack) -> None:
    """Hundreds of connections that send the half of a request and wait."""
    at = urlsplit(attack.url)
    head = f"POST /v1/tasks HTTP/1.1\r\nHost: {at.hostname}\r\nAuthorization: Bearer {attack.key}\r\n".encode()
    held: list[asyncio.StreamWriter] = []
    try:
        for number in range(_HELD_CONNECTIONS):
            _, writer = await asyncio.open_connection(at.hostname, at.port)
            writer.write(head if number % 2 else head + b"Content-Length: 5000\r\n\r\n{")
            held.append(writer)
            attack.answers["halves", "held"] += 1
        await asyncio.Event().wait()
    finally:
        for writer in held:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def expensive_queries(attack: Attack) -> None:
    """A query of a stored output that sorts and repeats everything."""
    async with attack.client() as http:
        locator = await _stored_output(attack, http)
        queries = [http.get(f"/v1/outputs/{locator}", params={"query": _QUERY}) for _ in range(8)]
        for answer in await asyncio.gather(*queries):
            attack.note("queries", answer)


async def _stored_output(attack: Attack, http: httpx.AsyncClient) -> str:
    """The locator of a table of many rows, made once."""
    if attack.locator is not None:
        return attack.locator
    arguments = {"actor": "outlast/big-table", "input": {"rows": _ROWS, "columns": "narrow"}}
    task = (await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": arguments})).raise_for_status().json()

    async def stored() -> str | None:
        answer = await http.get(f"/v1/tasks/{task['id']}/result", params={"wait": 5})
        return answer.json()["result"]["locator"] if answer.status_code == 200 else None

    attack.locator = locator = await eventually(stored)
    return locator


async def session_flood(attack: Attack) -> None:
    """MCP sessions of the older revision that nobody ends."""
    client = {"name": "x", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with attack.client() as http:
        for _ in range(50):
            attack.note("sessions", await http.post("/mcp", json=body, headers=_JSON))


_guesses = itertools.count()
WEAPONS: Mapping[str, Weapon] = {
    "schemas": hostile_schemas,
    "bodies": large_bodies,
    "calls": large_calls,
    "ids": long_ids,
    "flood": request_flood,
    "tasks": task_flood,
    "streams": stream_flood,
    "guesses": wrong_credentials,
    "halves": half_requests,
    "queries": expensive_queries,
    "sessions": session_flood,
}
