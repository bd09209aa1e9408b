"""Responses and notifications of MCP: no handler checks their sender, so they are held to the request they refer to."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from tests.support.calls.questions import asks
from tests.support.calls.tasks import sleeper_call
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.issuer import LocalIssuer, running_issuer
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, text_of
from tests.support.paths import ROOT
from tests.support.stacks.api_server import MortalApi
from tests.support.stacks.service import Service, settings_environment
from tests.support.whole_file import replace_text

AUDIENCE = "http://127.0.0.1/mcp"
NAMESPACE = "io.modelcontextprotocol"
CAN_BE_ASKED = {"elicitation": {}}
WAITS = {"_meta": {"outlast/wait-secs": 110}}
DEPLOY = {"name": "deploy", "arguments": {"item": "site"}, **WAITS}
YES = {"action": "accept", "content": {"decision": "yes", "arguments": '{"item": "forged"}'}}
KEYS: Mapping[str, frozenset[Scope]] = {
    "approver": frozenset({"call", "read", "cancel", "approve"}),
    "second": frozenset({"call", "read", "cancel", "approve"}),
    "reader": frozenset({"read"}),
}
WHOLE, LESS, NOTHING = "outlast:call outlast:read outlast:cancel outlast:approve", "outlast:call outlast:read", ""


@dataclass(frozen=True)
class Ann:
    """One caller with several keys, who also comes with access tokens."""

    url: str
    policy: Path
    audit: Path
    keys: Mapping[str, str]
    issuer: LocalIssuer
    clients: AsyncExitStack

    async def with_key(self, name: str) -> httpx.AsyncClient:
        return await self.clients.enter_async_context(api_client(self.url, self.keys[name]))

    async def with_token(self, scope: str, client: str = "app") -> httpx.AsyncClient:
        token = self.issuer.token(AUDIENCE, scope, client_id=client)
        return await self.clients.enter_async_context(api_client(self.url, token))

    def records(self, event: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.audit.read_text().splitlines()]
        return [record for record in found if record["event"] == event]


@pytest.fixture
async def ann(service: Service, tmp_path: Path) -> AsyncIterator[Ann]:
    policy, keys = tmp_path / "policy.toml", {name: new_key(name) for name in KEYS}
    for name, scopes in KEYS.items():
        add_key(policy, KeyEntry(id=name, caller="key:ann", hash=str(keys[name][1]), scopes=scopes))
    with ExitStack() as stack:
        async with running_issuer() as issuer, AsyncExitStack() as clients:
            settings = {
                "OUTLAST_POLICY_FILE": str(policy),
                "OUTLAST_TOOLS_FROM": "tests.support.tools.protocol_tools,tests.support.tools.phase_tools",
                "OUTLAST_DEFAULT_TOOLS": "actors,runs,dev",
                "OUTLAST_AUDIT_FILE": str(tmp_path / "audit.jsonl"),
                "OUTLAST_OAUTH_ISSUER": issuer.url,
                "OUTLAST_OAUTH_AUDIENCE": AUDIENCE,
            }
            mortal = MortalApi(service, tmp_path / "api.log", stack, **settings)
            await mortal.start()
            secrets = {name: key[0].get_secret_value() for name, key in keys.items()}
            yield Ann(mortal.url, policy, tmp_path / "audit.jsonl", secrets, issuer, clients)


@asynccontextmanager
async def asked(http: httpx.AsyncClient) -> AsyncIterator[tuple[Wire, dict[str, Any], AsyncGenerator[dict[str, Any]]]]:
    """A session whose call waits for an approval: the session, the question, and what comes after it."""
    wire = Wire(http, LEGACY)
    await wire.initialize(CAN_BE_ASKED)
    async with aclosing(wire.messages("tools/call", DEPLOY, request_id=CALL_ID)) as messages:
        async for message in messages:
            if message.get("method") == "elicitation/create":
                yield wire, message, messages
                return
    raise AssertionError("there was no question")


CALL_ID = 100_000
"""Id of the request that waits: above those of other tests in the process."""


def task_of(question: dict[str, Any]) -> str:
    return question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]


async def sent(http: httpx.AsyncClient, wire: Wire, body: dict[str, Any], revision: str = LEGACY) -> int:
    """The status of a message that is sent into the session of `wire`."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision,
        "Mcp-Session-Id": wire.session or "",
    }
    return (await http.post("/mcp", json={"jsonrpc": "2.0", **body}, headers=headers)).status_code


def cancelled(request_id: int) -> dict[str, Any]:
    return {"method": "notifications/cancelled", "params": {"requestId": request_id}}


async def status_of(http: httpx.AsyncClient, task_id: str) -> str:
    return (await http.get(f"/v1/tasks/{task_id}")).json()["status"]


async def test_only_the_key_that_opened_a_session_answers_what_it_is_asked(ann: Ann) -> None:
    approver = await ann.with_key("approver")
    async with asked(approver) as (wire, question, messages):
        answers = (
            {"id": question["id"], "result": YES},
            {"id": str(question["id"]), "result": YES},
            {"id": question["id"], "error": {"code": -1, "message": "no"}},
        )
        for name in ("reader", "second"):
            other = await ann.with_key(name)
            assert {await sent(other, wire, answer) for answer in answers} == {404}
            assert await sent(other, wire, answers[0], MODERN) == 400
            assert (await other.delete("/mcp", headers={"Mcp-Session-Id": wire.session or ""})).status_code == 404
        assert await status_of(approver, task_of(question)) == "input_required"
        # What refers to nothing open is taken and dropped, as the protocol demands.
        assert await sent(approver, wire, {"id": 1, "result": YES}) == 202
        assert await sent(approver, wire, cancelled(999_999)) == 202
        assert await sent(approver, wire, {"id": None, "error": {"code": -1, "message": "no"}}) in (202, 400)
        assert await status_of(approver, task_of(question)) == "input_required"
        await wire.reply(question, {"action": "accept", "content": {"decision": "yes"}})
        told = [message async for message in messages]
        assert text_of(told[-1]["result"]) == "Deployed 1 site"
    (approved,) = ann.records("task.approved")
    assert (approved["caller"], approved["key"], approved["door"]) == ("key:ann", "approver", "mcp")


async def test_a_message_needs_the_scope_of_the_request_that_it_refers_to(ann: Ann) -> None:
    """Access tokens change while a session lasts: each message counts for what its own token gives."""
    whole, less, nothing = [await ann.with_token(scope) for scope in (WHOLE, LESS, NOTHING)]
    async with asked(whole) as (wire, question, messages):
        task_id, answer = task_of(question), {"id": question["id"], "result": YES}
        failure = {"id": question["id"], "error": {"code": -1, "message": "no"}}
        progress = {
            "method": "notifications/progress",
            "params": {"progressToken": question["id"], "progress": 1},
        }
        for http in (less, nothing):
            assert [await sent(http, wire, body) for body in (answer, failure, progress)] == [403, 403, 403]
        # Nobody ends the wait of a call who may not call, by whichever way.
        ended = [await sent(nothing, wire, cancelled(request_id)) for request_id in (CALL_ID, CALL_ID + 1)]
        assert ended == [403, 202]
        session = {"Mcp-Session-Id": wire.session or "", "Accept": "text/event-stream"}
        assert (await nothing.delete("/mcp", headers=session)).status_code == 403
        assert (await less.delete("/mcp", headers=session)).status_code == 403
        assert (await nothing.get("/mcp", headers=session)).status_code == 403
        assert await sent(await ann.with_token(WHOLE, "other-app"), wire, answer) == 404
        assert await status_of(whole, task_id) == "input_required"
        assert (
            await sent(
                await ann.with_token(WHOLE),
                wire,
                {"id": question["id"], "result": {**YES, "content": {"decision": "yes"}}},
            )
            == 202
        )
        told = [message async for message in messages]
        assert text_of(told[-1]["result"]) == "Deployed 1 site"
    refused = {record["detail"] for record in ann.records("scope.refused")}
    assert refused >= {"needs approve; has call, read", "needs approve; has none", "needs call; has none"}


async def test_a_cancelled_wait_cancels_its_task_only_with_the_scope_for_it(ann: Ann, tmp_path: Path) -> None:
    whole, less = await ann.with_token(WHOLE), await ann.with_token(LESS)
    for http, folder in ((less, tmp_path / "goes-on"), (whole, tmp_path / "ends")):
        folder.mkdir()
        wire, request_id = Wire(whole, LEGACY), 7
        await wire.initialize()
        lingering = {"name": "linger", "arguments": {"folder": str(folder), "seconds": 600}, **WAITS}

        async def told(wire: Wire = wire, call: dict[str, Any] = lingering) -> list[dict[str, Any]]:
            messages = wire.messages("tools/call", call, request_id=7)
            async with aclosing(messages):
                return [message async for message in messages]

        waiting = asyncio.create_task(told())
        await eventually((folder / "started").exists)
        assert await sent(http, wire, cancelled(request_id)) == 202
        assert (await waiting)[-1]["error"]["message"] == "Request cancelled"
    await eventually((tmp_path / "ends" / "cancelled").exists)

    async def one_is_left() -> str | None:
        tasks = (await whole.get("/v1/tasks", params={"tool": "linger"})).json()["tasks"]
        working = [task["id"] for task in tasks if task["status"] == "working"]
        return working[0] if len(working) == 1 else None

    left = await eventually(one_is_left)
    await whole.post(f"/v1/tasks/{left}/cancel")
    await eventually((tmp_path / "goes-on" / "cancelled").exists)


async def test_a_key_that_lost_the_scope_since_the_question_answers_nothing(ann: Ann) -> None:
    approver = await ann.with_key("approver")
    with_all = ann.policy.read_text()
    async with asked(approver) as (wire, question, messages):
        answer = {"id": question["id"], "result": {"action": "accept", "content": {"decision": "yes"}}}
        replace_text(ann.policy, with_all.replace('"approve", ', ""))
        told = [message async for message in messages]
        assert "no longer has the scope `approve`" in told[-1]["error"]["message"]
        assert await sent(approver, wire, answer) == 202
        assert await status_of(approver, task_of(question)) == "input_required"


async def test_a_session_id_in_a_request_of_the_newer_revision_means_nothing(ann: Ann) -> None:
    """It has no sessions: nobody reaches into one of another key by naming it."""
    approver, second = await ann.with_key("approver"), await ann.with_key("second")
    older, newer = Wire(approver, LEGACY, "?tools=add-actor"), Wire(second, MODERN, "?tools=add-actor")
    await older.initialize()
    await older.request("tools/call", {"name": "add-actor", "arguments": {"actor": "outlast/big-table"}})
    assert "outlast--big-table" in await tools_of(older)
    newer.session = older.session
    assert "outlast--big-table" not in await tools_of(newer)


async def tools_of(wire: Wire) -> set[str]:
    return {tool["name"] for tool in (await wire.request("tools/list"))["tools"]}


async def test_over_stdio_the_credential_counts_as_it_is_when_the_answer_comes(ann: Ann, service: Service) -> None:
    with_all = ann.policy.read_text()
    async with over_stdio(service, ann, "approver") as stdio:
        client = {"name": "wire", "version": "1"}
        await stdio.send(
            id=1,
            method="initialize",
            params={"protocolVersion": LEGACY, "capabilities": CAN_BE_ASKED, "clientInfo": client},
        )
        await stdio.until(lambda message: message.get("id") == 1)
        await stdio.send(method="notifications/initialized", params={})
        await stdio.send(id=2, method="tools/call", params=DEPLOY)
        question = await stdio.until(lambda message: message.get("method") == "elicitation/create")

        replace_text(ann.policy, with_all.replace('"approve", ', ""))
        told = await stdio.until(lambda message: message.get("id") == 2)
        assert "no longer has the scope `approve`" in told["error"]["message"]
        await stdio.send(id=question["id"], result=YES)
        # Messages are read in their order: whatever this one did is done when the next one is answered.
        assert await stdio.refusal("ping") == ""
        second = await ann.with_key("second")
        assert (await asks(second, task_of(question)))["status"] == "input_required"

        await stdio.send(id=3, method="tools/call", params=DEPLOY)
        told = await stdio.until(lambda message: message.get("id") == 3)
        assert "It asks (approval)" in text_of(told["result"])

        replace_text(ann.policy, with_all)
        calls = itertools.count(10)

        async def asked_again() -> dict[str, Any] | None:
            call = next(calls)
            await stdio.send(id=call, method="tools/call", params=DEPLOY)
            told = await stdio.until(
                lambda message: message.get("id") == call or message.get("method") == "elicitation/create"
            )
            return told if told.get("method") == "elicitation/create" else None

        question = await eventually(asked_again)
        await stdio.send(id=question["id"], result={"action": "accept", "content": {"decision": "yes"}})
        told = await stdio.until(lambda message: "result" in message)
        assert text_of(told["result"]) == "Deployed 1 site"

        # A revoked key is refused from then on.
        replace_text(ann.policy, with_all.replace('id = "approver"', 'id = "replaced"'))

        async def revoked() -> bool:
            return "not known, or was revoked" in await stdio.refusal("tools/list")

        await eventually(revoked)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ('id = "approver"\nexpires = {soon}', "has expired"),
        ('id = "replaced"', "was revoked"),
    ],
)
async def test_over_stdio_what_is_open_ends_with_the_key(ann: Ann, service: Service, change: str, reason: str) -> None:
    second = await ann.with_key("second")
    call = sleeper_call(600)
    meta = {f"{NAMESPACE}/protocolVersion": MODERN, f"{NAMESPACE}/clientCapabilities": {}}
    async with over_stdio(service, ann, "approver") as stdio:
        arguments = {**call["arguments"], "waitSecs": 110}
        called = {"name": call["tool"], "arguments": arguments, "_meta": meta}
        listening = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        await stdio.send(id=1, method="tools/call", params=called)
        await stdio.send(id=2, method="subscriptions/listen", params=listening)
        working = await eventually(lambda: _working(second))
        soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        replace_text(ann.policy, ann.policy.read_text().replace('id = "approver"', change.format(soon=soon)))
        errors = [(await stdio.until(lambda message: "error" in message))["error"] for _ in range(2)]
    assert {error["data"]["type"] for error in errors} == {"credential-ended"}, errors
    assert all(reason in error["message"] for error in errors), errors
    for task in working:
        await second.post(f"/v1/tasks/{task}/cancel")


async def test_a_log_in_the_folder_of_the_policy_reports_no_changes_of_itself(ann: Ann) -> None:
    log, policy = ann.policy.parent / "api.log", ann.policy.read_text()
    for times, text in enumerate((policy.replace('"approve", ', ""), policy), start=1):
        replace_text(ann.policy, text)
        await eventually(lambda times=times: log.read_text().count("Policy loaded") == times)
    assert "detected" not in log.read_text()


async def _working(http: httpx.AsyncClient) -> list[str]:
    page = (await http.get("/v1/tasks", params={"status": "working"})).json()
    return [task["id"] for task in page["tasks"] if task.get("run")]


class Stdio:
    """A client over standard input and output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._probes = 0

    async def send(self, **message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._process.stdin.drain()

    async def until(self, fits: Any) -> dict[str, Any]:
        """The next message that fits."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            message = json.loads(line)
            if fits(message):
                return message
        raise AssertionError("the server has ended")

    async def refusal(self, method: str, params: dict[str, Any] | None = None) -> str:
        """Why a request is refused; empty when it is not."""
        self._probes += 1
        probe = f"probe-{self._probes}"
        await self.send(id=probe, method=method, params=params or {})
        answer = await self.until(lambda message: message.get("id") == probe)
        return answer.get("error", {}).get("message", "")


@asynccontextmanager
async def over_stdio(service: Service, ann: Ann, key: str) -> AsyncIterator[Stdio]:
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(service.folder),
        OUTLAST_POLICY_FILE=str(ann.policy),
        OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools",
        OUTLAST_TOKEN=ann.keys[key],
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.http.stdio_server",
        "tools=actors,runs,dev",
        env=environment,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=10_000_000,
    )
    try:
        yield Stdio(process)
    finally:
        process.kill()
        await process.wait()
