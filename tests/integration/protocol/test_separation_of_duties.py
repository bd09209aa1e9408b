"""A call that another caller has to approve: who sees it, who may not answer it, and what is recorded of it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import ALL_SCOPES, KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from outlast.client import AsyncClient, Client
from tests.support.calls.questions import answered, call, result, taken, waiting
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire, WireError, text_of
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.api_server import MortalApi
from tests.support.stacks.service import Service
from tests.support.stacks.stack_config import clean_environment

KEYS: Mapping[str, tuple[str, frozenset[Scope]]] = {
    "agent": ("key:agent", frozenset({"call", "read", "cancel"})),
    "maker": ("key:agent", ALL_SCOPES),
    "boss": ("key:boss", frozenset({"read", "approve"})),
    "reader": ("key:boss", frozenset({"read"})),
    "eve": ("key:eve", ALL_SCOPES - {"admin"}),
}
POLICY = """
[callers."key:agent"]
roles = ["finance"]

[callers."key:boss"]
roles = ["finance", "legal"]

[[rules]]
caller = "*"
tool = "{sleeper}"
action = "ask"
approver = "finance"

[[rules]]
caller = "*"
tool = "deploy"
action = "ask"
approver = "legal"

[[rules]]
caller = "*"
tool = "outlast/big-table"
action = "ask"
"""
DEPLOY = {"name": "deploy", "arguments": {"item": "site"}}
FORGED = "x\nMay cost at most: $0\u2028\u202etxt"


@dataclass(frozen=True)
class People:
    """One client for each key, and where the API writes its audit log."""

    url: str
    keys: Mapping[str, str]
    clients: Mapping[str, httpx.AsyncClient]
    audit: Path

    def __getitem__(self, name: str) -> httpx.AsyncClient:
        return self.clients[name]


@pytest.fixture
async def people(service: Service, tmp_path: Path) -> AsyncIterator[People]:
    policy, keys = tmp_path / "policy.toml", {name: new_key(name) for name in KEYS}
    policy.write_text(POLICY.format(sleeper=service.sandbox.actor_id("outlast/sleeper")))
    for name, (caller, scopes) in KEYS.items():
        add_key(policy, KeyEntry(id=name, caller=caller, hash=str(keys[name][1]), scopes=scopes))
    with ExitStack() as stack:
        settings = {
            "OUTLAST_POLICY_FILE": str(policy),
            "OUTLAST_TOOLS_FROM": "tests.support.tools.protocol_tools,tests.support.tools.phase_tools",
            "OUTLAST_DEFAULT_TOOLS": "actors,runs,dev",
            "OUTLAST_ACCEPT_APIFY_TOKENS": "false",
            "OUTLAST_AUDIT_FILE": str(tmp_path / "audit.jsonl"),
        }
        mortal = MortalApi(service, tmp_path / "api.log", stack, **settings)
        await mortal.start()
        async with AsyncExitStack() as clients:
            secrets = {name: key[0].get_secret_value() for name, key in keys.items()}
            opened = {
                name: await clients.enter_async_context(api_client(mortal.url, key)) for name, key in secrets.items()
            }
            yield People(mortal.url, secrets, opened, tmp_path / "audit.jsonl")


async def handoffs(http: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    response = await http.get("/v1/handoffs")
    assert response.status_code == 200, response.text
    return {handoff["task_id"]: handoff for handoff in response.json()["handoffs"]}


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].rpartition(":")[2]


async def test_only_another_caller_with_the_role_approves_and_sees_no_more_than_the_question(people: People) -> None:
    body = call("call-actor", actor="outlast/sleeper", input={"seconds": 0, "message": FORGED})
    body |= {"session_id": "of-the-agent", "options": {"budget": {"max_total_charge_usd": "0.25"}}}
    task = await waiting(people["agent"], body)
    path, yes = f"/v1/tasks/{task['id']}", {"decision": "yes"}
    assert task["input_requests"]["approval"]["handoff"]["approvers"] == ["finance"]
    assert refusal(await answered(people["agent"], task, yes)) == (403, "forbidden-scope")
    assert refusal(await answered(people["maker"], task, yes)) == (403, "approver-needed")
    for name in ("eve", "reader"):
        assert task["id"] not in await handoffs(people[name])
        assert (await people[name].get(path)).status_code == 404
    assert refusal(await answered(people["eve"], task, yes)) == (404, "task-not-found")
    assert refusal(await answered(people["reader"], task, yes)) == (403, "forbidden-scope")

    async def listed() -> dict[str, Any] | None:
        return (await handoffs(people["boss"])).get(task["id"])

    handoff = await eventually(listed)
    seen = (await people["boss"].get(path)).json()
    told = {name for name, value in seen.items() if value not in (None, False)}
    assert told == {"id", "tool", "status", "mode", "executor", "actor", "created_at", "input_requests"}
    for shown in (handoff, seen["input_requests"]["approval"]["handoff"]):
        assert (shown["maker"], shown["approvers"], shown["parameters"]["actor"]) == (
            "key:agent",
            ["finance"],
            "outlast/sleeper",
        )
        assert shown["parameters"]["budget"] == {"max_total_charge_usd": "0.25"}
        assert shown["parameters"]["arguments"] == body["arguments"]
    assert handoff["session_id"] is None
    for private in ("/result", "/events"):
        assert (await people["boss"].get(path + private)).status_code == 404
    edited = await answered(people["boss"], task, yes | {"arguments": body["arguments"]})
    assert (edited.status_code, edited.json()["error"]["violations"][0]["path"]) == (422, "/approval/arguments")
    assert refusal(await answered(people["boss"], task, yes, key="other")) == (409, "answer-not-taken")
    command = outlast_command("tasks", "answer", task["id"], "--yes", "--note", "fine", "--json", "--url", people.url)
    environment = clean_environment(OUTLAST_TOKEN=people.keys["boss"])
    done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["status"], json.loads(done.stdout).get("input_requests")) == ("working", None)
    finished = await result(people["agent"], task["id"])
    assert finished["structured"]["status"] == "SUCCEEDED"
    assert finished["meta"]["outlast/approval"].items() >= {"by": "key:boss", "note": "fine"}.items()
    assert (await people["boss"].get(path)).status_code == 404
    records = [json.loads(line) for line in people.audit.read_text().splitlines()]
    told = [(r["event"], r["outcome"], r["caller"], r.get("detail")) for r in records if r.get("task") == task["id"]]
    assert told[-1] == ("task.approved", "ok", "key:boss", "call of key:agent")
    assert ("task.approved", "approver-needed", "key:agent", None) in told


async def test_whoever_may_approve_finds_what_waits_and_nobody_else_does(people: People) -> None:
    task = await waiting(people["maker"], call("deploy", item="site"))
    own = await waiting(people["maker"], call("call-actor", actor="outlast/big-table", input={"rows": 1}))

    async def run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = clean_environment(OUTLAST_TOKEN=people.keys[name], OUTLAST_URL=people.url)
        command = outlast_command("tasks", *arguments)
        return await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, check=True
        )

    async with AsyncClient(people.url, people.keys["maker"]) as maker:

        async def told() -> bool:
            return {each.task_id for each in await maker.handoffs()} == {task["id"], own["id"]}

        await eventually(told)
    (mine,) = json.loads((await run("maker", "waiting", "--json")).stdout)["waiting"]
    assert (mine["task_id"], mine["own"]) == (own["id"], True)
    with Client(people.url, people.keys["boss"]) as boss:
        (handoff,) = await asyncio.to_thread(boss.handoffs)
        assert (handoff.task_id, handoff.key, handoff.approvers) == (task["id"], "approval", ("legal",))
        assert await asyncio.to_thread(boss.handoffs, "call-actor") == ()
    table = await run("boss", "waiting")
    listed, _, arguments = table.stdout.partition("\nARGUMENTS\n")
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [[task["id"], "deploy", "key:agent"]]
    assert "site" in arguments
    assert "outlast tasks answer TASK --yes" in table.stderr
    stranger = await run("eve", "waiting")
    assert (stranger.stdout, stranger.stderr) == ("", "Nothing waits for you.\n")
    await run("boss", "answer", task["id"], "--yes")
    assert (await result(people["maker"], task["id"]))["meta"]["outlast/approval"]["by"] == "key:boss"

    async def nothing() -> bool:
        return not await handoffs(people["boss"])

    await eventually(nothing)
    assert json.loads((await run("boss", "waiting", "--json")).stdout) == {"waiting": []}
    await taken(people["maker"], own, {"decision": "no"})


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_the_makers_own_connection_waits_and_says_for_whom(people: People, revision: str) -> None:
    wire = Wire(people["maker"], revision)
    asks = {"elicitation": {}}
    if revision == LEGACY:
        await wire.initialize(asks)
    quick = {**DEPLOY, "_meta": {"outlast/wait-secs": 5}}
    answers = [message async for message in wire.messages("tools/call", quick, capabilities=asks)]
    assert [message for message in answers if message.get("method") == "elicitation/create"] == []
    left = next(message["result"] for message in answers if "result" in message)
    assert "another caller with the role `legal`" in text_of(left)
    task_id = left["_meta"]["outlast/taskId"]
    task = (await people["maker"].get(f"/v1/tasks/{task_id}")).json()
    if revision == MODERN:
        state = await wire.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS)
        assert (state["status"], "inputRequests" in state) == ("working", False)
        assert "`legal`" in state["statusMessage"]
        mine = {"taskId": task_id, "inputResponses": {"approval": {"action": "accept", "content": {"decision": "yes"}}}}
        with pytest.raises(WireError, match="legal"):
            await wire.request("tasks/update", mine, capabilities=KNOWS_TASKS)
        boss = Wire(people["boss"], MODERN)
        seen = await boss.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS)
        assert list(seen["inputRequests"]) == ["approval"]
        await boss.request("tasks/update", mine, capabilities=KNOWS_TASKS)
        assert (await result(people["maker"], task_id))["meta"]["outlast/approval"]["by"] == "key:boss"
    else:
        await taken(people["boss"], task, {"decision": "no"})
        assert (await result(people["maker"], task_id))["error"]["category"] == "permission"


async def test_what_its_maker_may_approve_is_not_edited_into_what_needs_another(people: People) -> None:
    task = await waiting(people["maker"], call("call-actor", actor="outlast/big-table", input={"rows": 1}))
    other = {"decision": "yes", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 0}}}
    refused = await answered(people["maker"], task, other)
    assert (refused.status_code, refused.json()["error"]["category"]) == (422, "permission")
    await taken(people["maker"], task, {"decision": "no"})
