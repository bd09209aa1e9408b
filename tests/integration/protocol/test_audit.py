"""The audit log of a real API: each thing once, under the right name, and nothing of what was said."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry
from outlast.api.access.policy.policy_file import add_key, remove_key
from tests.integration.protocol.conftest import ANN, BOB
from tests.support.calls.questions import answered, call, waiting
from tests.support.calls.tasks import completed, started
from tests.support.calls.turns import new_session
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.api_server import MortalApi
from tests.support.stacks.service import SEAL_KEYS, Service
from tests.support.stacks.stack_config import clean_environment

PRIVATE = ("word-that-is-private", "idempotency-key-of-ann", "note-that-is-private", "title-that-is-private")
WRONG_KEY = "wrong-key-0123456789"


@pytest.fixture
async def audited(service: Service, tmp_path: Path) -> AsyncIterator[MortalApi]:
    with ExitStack() as stack:
        settings = {
            "OUTLAST_API_KEYS": f"ann:{ANN},bob:{BOB}",
            "OUTLAST_TOOLS_FROM": "tests.support.tools.protocol_tools,tests.support.tools.phase_tools",
            "OUTLAST_PERMISSIONS": "key:bob:hello_world=deny,key:bob:list-tasks=deny",
            "OUTLAST_DEFAULT_TOOLS": "actors,runs,dev",
            "OUTLAST_ACCEPT_APIFY_TOKENS": "false",
            "OUTLAST_AUDIT_FILE": str(tmp_path / "audit.jsonl"),
        }
        mortal = MortalApi(service, tmp_path / "api.log", stack, **settings)
        await mortal.start()
        yield mortal


def records(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def recorded(folder: Path, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(record.get(name) for name in names) for record in records(folder)[1:]]


def verified(folder: Path) -> tuple[int, dict[str, Any]]:
    command = outlast_command("audit", "verify", "--json", str(folder / "audit.jsonl"))
    ended = subprocess.run(
        command, env=clean_environment(OUTLAST_SEAL_KEYS=SEAL_KEYS), capture_output=True, check=False
    )
    return ended.returncode, json.loads(ended.stdout)["chains"][0]


async def test_tasks_and_refusals_are_recorded_once_whatever_the_front_door(audited: MortalApi, tmp_path: Path) -> None:
    hello = {"name": "hello_world", "arguments": {}}
    body = call("say_message", text=PRIVATE[0])
    async with api_client(audited.url, ANN) as ann, api_client(audited.url, BOB) as bob:
        said = [(await completed(ann, body, **{"Idempotency-Key": PRIVATE[1]}))["task"]["id"] for _ in range(2)]
        older = Wire(ann, LEGACY)
        await older.initialize()
        for wire in (older, older, Wire(ann, MODERN)):
            await wire.request("tools/call", hello)
        message = {
            "role": "assistant",
            "tool_calls": [{"id": "c-1", "type": "function", "function": {"name": "hello_world", "arguments": "{}"}}],
        }
        adapter = await ann.post("/v1/adapters/openai-chat/calls", json={"message": message, "wait": 30})
        assert adapter.status_code == 200, adapter.text
        yes, no = [await waiting(ann, call("deploy", item="site")) for _ in range(2)]
        assert (await answered(ann, yes, {"decision": "yes", "note": PRIVATE[2]})).is_success
        assert (await answered(ann, no, {"decision": "no"})).is_success
        open_task = await waiting(ann, call("deploy", item="site"))
        assert (await bob.post(f"/v1/tasks/{open_task['id']}/cancel")).status_code == 404
        cancelled = await ann.post(f"/v1/tasks/{open_task['id']}/cancel")
        assert cancelled.status_code == 202
        await completed(bob, call("hello_world"))
        await Wire(bob, MODERN).request("tools/call", {"name": "list-tasks", "arguments": {}})
        assert (await bob.post("/v1/tasks", json=call("no-such-tool"))).status_code == 404
        for headers in ({"Authorization": f"Bearer {WRONG_KEY}"}, {}):
            async with httpx.AsyncClient(base_url=audited.url, headers=headers, timeout=180) as stranger:
                assert (await stranger.get("/v1/tasks")).status_code == 401
                assert (await stranger.post("/mcp", json={})).status_code == 401
    ann_started = ("task.started", "ok", "key:ann")
    expected = [
        (*ann_started, "rest", "say_message"),
        ("task.started", "repeated", "key:ann", "rest", "say_message"),
        *[(*ann_started, "mcp", "hello_world")] * 3,
        (*ann_started, "adapter", "hello_world"),
        *[(*ann_started, "rest", "deploy")] * 2,
        ("task.approved", "ok", "key:ann", "rest", "deploy"),
        ("task.declined", "ok", "key:ann", "rest", "deploy"),
        (*ann_started, "rest", "deploy"),
        ("task.cancelled", "task-not-found", "key:bob", "rest", None),
        ("task.cancelled", "ok", "key:ann", "rest", None),
        ("permission.refused", "denied", "key:bob", "rest", "hello_world"),
        ("task.started", "ok", "key:bob", "rest", "hello_world"),
        ("permission.refused", "denied", "key:bob", "mcp", "list-tasks"),
        ("task.started", "unknown-tool", "key:bob", "rest", "no-such-tool"),
        *[("credentials.refused", "unauthenticated", None, door, None) for door in ("rest", "mcp")] * 2,
    ]
    assert recorded(tmp_path, "event", "outcome", "caller", "door", "tool") == expected
    assert [task for (task,) in recorded(tmp_path, "task")][:2] == said
    requests = [request for (request,) in recorded(tmp_path, "request")]
    assert cancelled.headers["X-Request-Id"] in requests
    assert len(set(requests)) == len(requests) - 1  # one request was refused and started, as a task that fails
    assert {remote for (remote,) in recorded(tmp_path, "remote")} == {"127.0.0.1"}
    text = (tmp_path / "audit.jsonl").read_text()
    assert [secret for secret in (*PRIVATE, WRONG_KEY, ANN, BOB) if secret in text] == []
    assert verified(tmp_path)[0] == 0
    (tmp_path / "audit.jsonl").write_text(text.replace("task-not-found", "ok"))
    assert verified(tmp_path)[0] == 1


async def test_refused_scopes_and_changes_of_the_policy_are_recorded(service: Service, tmp_path: Path) -> None:
    policy, (secret, hashed) = tmp_path / "policy.toml", new_key("reader")
    reader = KeyEntry(id="reader", caller="key:ann", hash=str(hashed), scopes=frozenset({"read"}))
    add_key(policy, reader)
    with ExitStack() as stack:
        settings = {"OUTLAST_POLICY_FILE": str(policy), "OUTLAST_AUDIT_FILE": str(tmp_path / "audit.jsonl")}
        mortal = MortalApi(service, tmp_path / "api.log", stack, **settings)
        await mortal.start()
        async with api_client(mortal.url, secret.get_secret_value()) as http:
            assert (await http.post("/v1/tasks", json=call("search-actors"))).status_code == 403
            assert (await http.delete("/v1/sessions/none")).status_code == 403
            assert (await http.post("/v1/adapters/openai-chat/calls", json={"message": {}})).status_code == 403
            wire = Wire(http, MODERN)
            with pytest.raises(WireError, match="scope"):
                await wire.request("tools/call", {"name": "search-actors", "arguments": {}})
            answers = {"answers": {"approval": {"content": {"decision": "yes"}}}}
            assert (await http.post("/v1/tasks/none/input", json=answers)).status_code == 403
        refused = recorded(tmp_path, "event", "outcome", "caller", "key", "door", "detail")
        start = ("scope.refused", "forbidden-scope", "key:ann", "reader")
        assert [record for record in refused if record[0] == "scope.refused"] == [
            (*start, "rest", "needs call; has read"),
            (*start, "rest", "needs cancel; has read"),
            (*start, "adapter", "needs call; has read"),
            (*start, "mcp", "needs call; has read"),
            (*start, "rest", "needs call or approve; has read"),
        ]

        async def told(*events: str) -> None:
            async def all_there() -> bool:
                found = recorded(tmp_path, "event", "key", "outcome")[len(refused) :]
                return [event for event, _, _ in found] == list(events)

            await eventually(all_there)

        def replaced(text: str) -> None:
            (tmp_path / "next.toml").write_text(text)
            (tmp_path / "next.toml").replace(policy)

        expected = ["policy.loaded", "key.added"]
        add_key(policy, reader.model_copy(update={"id": "second"}))
        await told(*expected)
        replaced(policy.read_text().replace('"read"', '"call"', 1))
        await told(*(expected := [*expected, "policy.loaded", "key.changed"]))
        remove_key(policy, "second")
        await told(*(expected := [*expected, "policy.loaded", "key.removed"]))
        replaced("unmatched = 'never'")
        await told(*expected, "policy.refused")
    last = records(tmp_path)[-1]
    assert (last["outcome"], "unmatched" in last["detail"]) == ("bad-policy", True)
    assert verified(tmp_path)[0] == 0


async def test_sessions_and_outputs_are_recorded(audited: MortalApi, tmp_path: Path) -> None:
    async with api_client(audited.url, ANN) as ann, api_client(audited.url, BOB) as bob:
        session = await new_session(ann)
        renamed = await ann.patch(f"/v1/sessions/{session}", json={"title": PRIVATE[3]})
        assert renamed.status_code == 200, renamed.text
        exported = (await ann.get(f"/v1/sessions/{session}/export")).json()
        assert (await bob.get(f"/v1/sessions/{session}/export")).status_code == 404
        imported = await ann.post("/v1/sessions/import", json=exported)
        assert imported.status_code == 201, imported.text
        assert (await ann.delete(f"/v1/sessions/{session}")).status_code == 204
        table = {"actor": "outlast/big-table", "input": {"rows": 400, "columns": "narrow"}}
        answer = await completed(ann, call("call-actor", **table))
        locator = answer["result"]["structured"]["locator"]
        assert (await ann.get(f"/v1/outputs/{locator}/info")).is_success  # describes, reads nothing
        assert (await ann.get(f"/v1/outputs/{locator}")).is_success
        assert (await bob.get(f"/v1/outputs/{locator}")).status_code == 403
        wire = Wire(ann, MODERN, "?mode=apify&tools=")
        templates = (await wire.request("resources/templates/list"))["resourceTemplates"]
        dataset = next(entry["uriTemplate"] for entry in templates if entry["name"] == "dataset-items").partition("{?")[
            0
        ]
        for dataset_id, reads in (
            (answer["task"]["run"]["dataset_id"], nullcontext()),
            ("zzz", pytest.raises(WireError)),
        ):
            with reads:
                await wire.request("resources/read", {"uri": dataset.replace("{datasetId}", dataset_id)})
        assert (await ann.delete(f"/v1/outputs/{locator}")).status_code == 204
    copy = imported.json()["id"]
    assert recorded(tmp_path, "event", "caller", "session", "actor", "output") == [
        ("session.created", "key:ann", session, None, None),
        ("session.updated", "key:ann", session, None, None),
        ("session.exported", "key:ann", session, None, None),
        ("session.exported", "key:bob", session, None, None),
        ("session.created", "key:ann", copy, None, None),
        ("session.imported", "key:ann", copy, None, None),
        ("session.deleted", "key:ann", session, None, None),
        ("task.started", "key:ann", None, "outlast/big-table", None),
        ("output.read", "key:ann", None, None, locator),
        ("output.read", "key:bob", None, None, locator),
        ("resource.read", "key:ann", None, None, None),
        ("resource.read", "key:ann", None, None, None),
        ("output.deleted", "key:ann", None, None, locator),
    ]
    told = recorded(tmp_path, "event", "tool", "outcome")
    assert [entry for entry in told if entry[0] == "resource.read"] == [
        ("resource.read", "get-dataset-items", "ok"),
        ("resource.read", "get-dataset-items", "refused"),
    ]
    assert PRIVATE[3] not in (tmp_path / "audit.jsonl").read_text()


async def test_a_kill_loses_no_answered_request_and_the_next_process_goes_on(
    audited: MortalApi, tmp_path: Path
) -> None:
    answered_ids: list[str] = []

    async def knock(http: httpx.AsyncClient) -> None:
        while True:
            answered_ids.append((await http.get("/v1/tasks")).headers["X-Request-Id"])

    async with httpx.AsyncClient(base_url=audited.url, timeout=180) as http:
        knocking = [asyncio.create_task(knock(http)) for _ in range(4)]
        while len(answered_ids) < 100:
            await asyncio.wait(knocking, return_when=asyncio.FIRST_EXCEPTION, timeout=0.01)
        audited.kill()
        assert all(isinstance(end, httpx.HTTPError) for end in await asyncio.gather(*knocking, return_exceptions=True))
    kept = {request for (request,) in recorded(tmp_path, "request")}
    assert set(answered_ids) - kept == set()
    assert verified(tmp_path)[0] == 0
    with (tmp_path / "audit.jsonl").open("ab") as file:  # what a power cut may leave
        file.write(b'{"seq":')
    code, report = verified(tmp_path)
    assert (code, report["torn_bytes"]) == (0, 7)
    await audited.start()
    async with api_client(audited.url, ANN) as ann:
        task = await started(ann, call("hello_world"))
    assert recorded(tmp_path, "task")[-1] == (task,)
    code, report = verified(tmp_path)
    assert (code, report["torn_bytes"], report["last"]) == (0, 0, report["records"])
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o077 == 0
