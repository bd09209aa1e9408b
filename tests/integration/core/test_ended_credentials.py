"""What was opened with a key that is revoked, expires or loses a right ends, and says why. Nothing else ends."""

import asyncio
import json
import time
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.api.access import callers
from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.access.policy.policy_file import add_key, remove_key
from tests.support.calls.tasks import sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.http.issuer import running_issuer
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.whole_file import replace_text

LONG_SECONDS = 300
"""Far longer than the test waits for the end of what is open."""
WITHIN_SECONDS = 15
"""The promise is a second; this machine may be busy."""
ENDED = "urn:outlast:problem:credential-ended"
REASON = "The API key stolen was revoked."


@dataclass
class Keys:
    """The policy file, and the keys of the caller `key:ann` in it."""

    path: Path
    tokens: dict[str, str]

    def add(self, name: str, **more: Any) -> dict[str, str]:
        """The header of a new key."""
        key, hashed = new_key(name)
        self.tokens[name] = key.get_secret_value()
        add_key(self.path, KeyEntry(**{"id": name, "caller": "key:ann", "hash": str(hashed), **more}))
        return self.header(name)

    def header(self, name: str) -> dict[str, str]:
        return bearer(self.tokens[name])

    def change(self, name: str, **more: Any) -> None:
        """Write the key's entry again, with the same hash."""
        entry = next(key for key in tomllib.loads(self.path.read_text())["keys"] if key["id"] == name)
        remove_key(self.path, name)
        add_key(self.path, KeyEntry.model_validate({**entry, **more}))


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    keys = Keys(tmp_path / "policy.toml", {})
    keys.add("good")
    keys.add("stolen")
    return keys


@pytest.fixture
async def api(temporal: Client, sandbox: Sandbox, keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_api(temporal, api_settings(sandbox, policy_file=keys.path), whole=True) as api:
        yield api


@pytest.fixture
async def task(api: httpx.AsyncClient, keys: Keys) -> AsyncIterator[str]:
    """A task of Ann's that goes on."""
    task = await started(api, sleeper_call(LONG_SECONDS), **keys.header("good"))
    yield task
    await api.post(f"/v1/tasks/{task}/cancel", headers=keys.header("good"))


@dataclass
class Opened:
    """A response that is being read."""

    status: int = 0
    text: str = ""
    is_cut_off: bool = False


async def read(api: httpx.AsyncClient, into: Opened, path: str, headers: dict[str, str]) -> None:
    try:
        async with api.stream("GET", path, headers=headers) as response:
            into.status = response.status_code
            async for text in response.aiter_text():
                into.text += text
    except httpx.RemoteProtocolError:
        into.is_cut_off = True


def last_event(text: str) -> tuple[str, Any]:
    *_, last, rest = text.split("\n\n")
    assert not rest
    fields = dict(line.split(": ", 1) for line in last.split("\n"))
    return fields["event"], json.loads(fields["data"])["data"]


async def begun(*opened: Opened) -> None:
    await eventually(lambda: all(each.text for each in opened))


async def test_streams_end_with_their_key_and_those_of_other_keys_go_on(
    api: httpx.AsyncClient, keys: Keys, task: str
) -> None:
    stolen, good = keys.header("stolen"), keys.header("good")
    batch = {"tool": "call-actor", "items": [{"arguments": sleeper_call(LONG_SECONDS)["arguments"]}]}
    response = await api.post("/v1/batches", json=batch, headers=good)
    assert response.status_code == 201, response.text
    batch_id = response.json()["id"]
    call = {**sleeper_call(LONG_SECONDS), "session_id": "s-of-ann"}
    in_session = await started(api, call, **good)
    paths = [
        f"/v1/tasks/{task}/events",
        f"/v1/tasks/{task}/rows",
        f"/v1/batches/{batch_id}/events",
        "/v1/handoffs/events",
        "/v1/sessions/s-of-ann/events",
    ]
    ending, lasting = ([Opened() for _ in paths] for _ in range(2))
    reading = [
        asyncio.create_task(read(api, into, path, header))
        for header, all_of_them in ((stolen, ending), (good, lasting))
        for path, into in zip(paths, all_of_them, strict=True)
    ]
    try:
        await begun(*ending, *lasting)
        remove_key(keys.path, "stolen")
        async with asyncio.timeout(WITHIN_SECONDS):
            await asyncio.gather(*reading[: len(paths)])
        for path, opened in zip(paths, ending, strict=True):
            name, error = last_event(opened.text)
            assert (name, error["category"], error["message"]) == ("error", "authentication", REASON), path
        assert not any(each.done() for each in reading[len(paths) :])
        refused = await api.get(paths[0], headers=stolen)
        assert refused.status_code == 401
    finally:
        for each in reading:
            each.cancel()
        await api.post(f"/v1/batches/{batch_id}/cancel", headers=good)
        await api.post(f"/v1/tasks/{in_session}/cancel", headers=good)


async def test_what_cannot_say_why_is_cut_off(api: httpx.AsyncClient, keys: Keys, sandbox: Sandbox) -> None:
    task = await started(api, sleeper_call(LONG_SECONDS, rows=LONG_SECONDS, steps=LONG_SECONDS), **keys.header("good"))
    lines = Opened()
    path = f"/v1/tasks/{task}/rows?format=jsonl"
    reading = asyncio.create_task(read(api, lines, path, keys.header("stolen")))
    await begun(lines)
    remove_key(keys.path, "stolen")
    async with asyncio.timeout(WITHIN_SECONDS):
        await reading
    assert lines.is_cut_off
    await api.post(f"/v1/tasks/{task}/cancel", headers=keys.header("good"))


async def test_waits_end_with_their_key_and_the_call_goes_on(api: httpx.AsyncClient, keys: Keys, task: str) -> None:
    stolen, good = keys.header("stolen"), keys.header("good")
    waits = [
        asyncio.create_task(api.get(f"/v1/tasks/{task}/result?wait={LONG_SECONDS}", headers=stolen)),
        asyncio.create_task(
            api.post("/v1/tasks", json=sleeper_call(LONG_SECONDS), headers={**stolen, "Prefer": f"wait={LONG_SECONDS}"})
        ),
    ]
    begun = await eventually(lambda: _working(api, good, count=2))
    remove_key(keys.path, "stolen")
    async with asyncio.timeout(WITHIN_SECONDS):
        result, call = await asyncio.gather(*waits)
    for answer in (result, call):
        assert (answer.status_code, answer.json()["type"]) == (401, ENDED)
        assert answer.json()["detail"].startswith(REASON)
    assert "whether it had an effect is not known" in call.json()["detail"]
    for each in begun:
        assert (await api.get(f"/v1/tasks/{each}", headers=good)).json()["status"] == "working"
        await api.post(f"/v1/tasks/{each}/cancel", headers=good)


async def _working(api: httpx.AsyncClient, headers: dict[str, str], *, count: int) -> list[str] | None:
    page = (await api.get("/v1/tasks", params={"status": "working"}, headers=headers)).json()
    found = [task["id"] for task in page["tasks"] if task.get("run")]
    return found if len(found) >= count else None


async def failure_of(messages: Any) -> dict[str, Any]:
    """The JSON-RPC error that a response ends with."""
    async with aclosing(messages) as coming:
        async for message in coming:
            if "error" in message:
                return message["error"]
    raise AssertionError("the stream has ended without an error")


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_requests_and_streams_of_mcp_end_with_their_key(
    api: httpx.AsyncClient, keys: Keys, task: str, revision: str
) -> None:
    good = keys.header("good")
    async with httpx.AsyncClient(base_url=api.base_url, headers=keys.header("stolen"), timeout=LONG_SECONDS) as http:
        wire = Wire(http, revision)
        call = {"name": "call-actor", "arguments": {**sleeper_call(LONG_SECONDS)["arguments"], "waitSecs": 300}}
        opened = [wire.messages("tools/call", call)]
        own_stream = Opened()
        reading: list[asyncio.Task[Any]] = []
        if revision == LEGACY:
            await wire.initialize()
            opened = [wire.messages("tools/call", call), wire.messages("tasks/result", {"taskId": task})]
            session = {"Mcp-Session-Id": wire.session or "", "Accept": "text/event-stream"}
            reading = [asyncio.create_task(read(http, own_stream, "/mcp", session))]
            await eventually(lambda: own_stream.status == 200)
        else:
            listening = {"notifications": {"taskIds": [task], "toolsListChanged": True}}
            opened.append(wire.messages("subscriptions/listen", listening, capabilities=KNOWS_TASKS))
        failures = [asyncio.create_task(failure_of(messages)) for messages in opened]
        begun = await eventually(lambda: _working(api, good, count=2))
        remove_key(keys.path, "stolen")
        async with asyncio.timeout(WITHIN_SECONDS):
            errors = await asyncio.gather(*failures)
            await asyncio.gather(*reading)
        assert [(error["message"], error["data"]["type"]) for error in errors] == [(REASON, "credential-ended")] * 2
        if revision == LEGACY:
            assert own_stream.text.rpartition("event: ")[2].startswith("error\n")
            assert REASON in own_stream.text
    for each in begun:
        await api.post(f"/v1/tasks/{each}/cancel", headers=good)


async def test_a_session_of_mcp_takes_a_new_stream_after_the_end_of_one(
    api: httpx.AsyncClient, keys: Keys, task: str
) -> None:
    """The stream that ended leaves nothing behind that would keep a new one out (409)."""
    streams = [Opened(), Opened(), Opened()]
    wire = Wire(api, LEGACY)
    api.headers.update(keys.header("stolen"))
    await wire.initialize()
    session = {"Mcp-Session-Id": wire.session or "", "Accept": "text/event-stream"}
    first = asyncio.create_task(read(api, streams[0], "/mcp", session))
    await eventually(lambda: streams[0].status == 200)
    keys.change("stolen", scopes=["call", "read"])
    async with asyncio.timeout(WITHIN_SECONDS):
        await first
    second = asyncio.create_task(read(api, streams[1], "/mcp", session))
    await eventually(lambda: streams[1].status)
    assert streams[1].status == 200
    second.cancel()
    # Another key of the same caller does not reach into the session.
    await read(api, streams[2], "/mcp", {**session, **keys.header("good")})
    assert streams[2].status == 404


def expires(keys: Keys) -> None:
    keys.change("stolen", expires=datetime.now(UTC) + timedelta(seconds=1))


def loses_a_scope(keys: Keys) -> None:
    keys.change("stolen", scopes=["call"])


def is_made_anew(keys: Keys) -> None:
    remove_key(keys.path, "stolen")
    keys.add("stolen")


def is_given_away(keys: Keys) -> None:
    keys.change("stolen", caller="key:bob")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (expires, "has expired"),
        (loses_a_scope, "no longer has the scope `cancel` and `read`"),
        (is_made_anew, "was revoked"),
        (is_given_away, "was revoked"),
    ],
)
async def test_any_end_of_a_key_ends_its_streams(
    api: httpx.AsyncClient, keys: Keys, task: str, change: Callable[[Keys], None], reason: str
) -> None:
    opened = Opened()
    reading = asyncio.create_task(read(api, opened, f"/v1/tasks/{task}/events", keys.header("stolen")))
    await begun(opened)
    change(keys)
    async with asyncio.timeout(WITHIN_SECONDS):
        await reading
    assert reason in last_event(opened.text)[1]["message"]


async def test_a_policy_that_leaves_the_key_as_it_is_ends_nothing(
    api: httpx.AsyncClient, keys: Keys, task: str
) -> None:
    opened = Opened()
    reading = asyncio.create_task(read(api, opened, f"/v1/tasks/{task}/events", keys.header("stolen")))
    await begun(opened)
    keys.change("stolen", scopes=["call", "read", "cancel", "approve"], expires=datetime.now(UTC) + timedelta(days=1))
    new = keys.add("new", caller="key:bob")
    with keys.path.open("a") as file:
        file.write('[defaults.limits]\nopen_streams = 50\n[[rules]]\ncaller = "key:bob"\ntool = "x"\naction = "deny"\n')
    await eventually(lambda: _is_let_in(api, new))
    remove_key(keys.path, "new")
    await eventually(lambda: _is_kept_out(api, new))
    await api.post(f"/v1/tasks/{task}/cancel", headers=keys.header("good"))
    await reading
    assert "event: task_completed" in opened.text
    assert "event: error" not in opened.text


async def _is_let_in(api: httpx.AsyncClient, header: dict[str, str]) -> bool:
    return (await api.get("/v1/providers", headers=header)).status_code == 200


async def _is_kept_out(api: httpx.AsyncClient, header: dict[str, str]) -> bool:
    return not await _is_let_in(api, header)


AUDIENCE = "https://outlast.example/mcp"


async def test_an_access_token_that_expires_or_loses_its_scope_ends_its_streams(
    temporal: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('unmatched = "allow"\n')
    async with running_issuer() as issuer:
        settings = {
            "oauth_issuer": issuer.url,
            "oauth_audience": AUDIENCE,
            "oauth_clock_skew_seconds": 0,
            "policy_file": policy,
        }
        async with serving_api(temporal, api_settings(sandbox, **settings), whole=True) as api:
            short = issuer.token(AUDIENCE, "outlast:read", exp=int(time.time()) + 5)
            long = issuer.token(AUDIENCE, "outlast:read outlast:call")
            opened = [Opened(), Opened()]
            reading = [
                asyncio.create_task(read(api, into, "/v1/handoffs/events", bearer(token)))
                for into, token in zip(opened, (short, long), strict=True)
            ]
            await begun(*opened)
            async with asyncio.timeout(5 + WITHIN_SECONDS):
                await reading[0]
            assert "has expired" in last_event(opened[0].text)[1]["message"]
            assert not reading[1].done()
            policy.write_text('[oauth.scopes]\n"outlast:call" = ["call"]\n')
            async with asyncio.timeout(WITHIN_SECONDS):
                await reading[1]
            assert "no longer has the scope `read`" in last_event(opened[1].text)[1]["message"]


async def test_an_apify_token_that_is_revoked_ends_its_streams_when_the_platform_is_asked_again(
    temporal: Client, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "_ACCOUNT_SECONDS", 0.3)
    token = sandbox.add_user("leaves-soon").token
    async with serving_api(temporal, api_settings(sandbox), whole=True) as api:
        opened = Opened()
        reading = asyncio.create_task(read(api, opened, "/v1/handoffs/events", bearer(token)))
        await begun(opened)
        sandbox.order_fault("status", path="/users/me", status=503, times=1)
        await eventually(lambda: sandbox.faults[0]["hits"])
        assert not reading.done(), "a platform that does not answer has not said that the token is bad"
        sandbox.order_fault("status", path="/users/me", status=401)
        async with asyncio.timeout(WITHIN_SECONDS):
            await reading
        assert last_event(opened.text)[1]["category"] == "authentication"


async def _is_known(api: httpx.AsyncClient, headers: dict[str, str]) -> bool:
    return (await api.get("/v1/providers", headers=headers)).status_code == 200


async def test_who_came_without_a_key_leaves_when_nobody_may_any_longer(
    temporal: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    keys = Keys(tmp_path / "policy.toml", {})
    keys.path.write_text('anonymous = "local"\n')
    async with serving_api(temporal, api_settings(sandbox, policy_file=keys.path), whole=True) as api:
        opened = Opened()
        reading = asyncio.create_task(read(api, opened, "/v1/handoffs/events", {}))
        await begun(opened)
        first = keys.add("first")
        await eventually(lambda: _is_known(api, first))
        assert not reading.done(), "a key takes nothing from whom the file lets in"
        replace_text(keys.path, keys.path.read_text().replace('"local"', '"none"'))
        async with asyncio.timeout(WITHIN_SECONDS):
            await reading
        assert "Send your API key" in last_event(opened.text)[1]["message"]
