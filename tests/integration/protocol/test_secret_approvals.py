"""Whoever approves a call sees a mask where a secret stands; left in place it is the secret, changed it is sealed."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.workflows.contracts.sessions import session_workflow_id
from tests.support.calls.questions import answered, asks, call, result, taken, waiting
from tests.support.calls.tasks import events, started
from tests.support.calls.turns import session_events
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service, running_outlast

MASK = "[secret]"
FIRST_KEY, NEW_KEY = "key-plantedFirst0123456789", "key-plantedAnew0123456789"
PASSWORD = "planted deep inside a login"
LOGIN = {"user": "ann", "password": PASSWORD}


def field(title: str, **properties: Any) -> dict[str, Any]:
    """A field of an input schema, whose words do not matter here."""
    return {"title": title, "description": f"{title}.", **properties}


VAULT = {
    "actorSpecification": 1,
    "name": "vault",
    "title": "Vault",
    "description": "Takes secrets and keeps them.",
    "version": "0.1",
    "input": {
        "title": "Vault input",
        "type": "object",
        "schemaVersion": 1,
        "properties": {
            "apiKey": field("Key", type="string", editor="textfield", isSecret=True, pattern="^key-"),
            "login": field("Login", type="object", editor="json", isSecret=True),
            "note": field("Note", type="string", editor="textfield"),
        },
        "required": ["apiKey"],
    },
    "x-outlast": {"command": ["python", "-c", "print('kept')"]},
}


@dataclass(frozen=True)
class Stack:
    service: Service
    folder: Path

    @property
    def sandbox(self) -> Sandbox:
        return self.service.sandbox

    def files(self) -> dict[str, bytes]:
        """What the processes have written."""
        found = (*self.folder.glob("temporal.db*"), self.service.worker.log, self.service.api.log)
        return {file.name: file.read_bytes() for file in found}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack of its own, whose Temporal server keeps its state in a file, and whose platform has an Actor more."""
    folder = tmp_path_factory.mktemp("secret-approvals")
    actor = folder / "actors" / "vault" / ".actor"
    actor.mkdir(parents=True)
    (actor / "actor.json").write_text(json.dumps(VAULT))
    (actor.parent / "README.md").write_text("# Vault")
    with running_outlast(
        folder,
        database=True,
        actors=folder / "actors",
        permissions=["*:outlast--vault=ask", "*:outlast--absent=ask"],
        tools=["tests.support.tools.calling_tools"],
        settings={"OUTLAST_DEFAULT_ACTORS": "outlast/vault"},
    ) as service:
        yield Stack(service, folder)


@pytest.fixture
async def vault(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with stack.service.http() as client:
        yield client


async def given_to_the_run(stack: Stack, api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    """The input with which the platform has run the Actor for a task."""
    done = await result(api, task_id)
    assert not done["is_error"], done
    run = stack.sandbox.run((await api.get(f"/v1/tasks/{task_id}")).json()["run"]["run_id"])
    headers = {"Authorization": f"Bearer {stack.sandbox.token}"}
    async with httpx.AsyncClient(base_url=stack.sandbox.url, trust_env=False, headers=headers, timeout=180) as platform:
        answer = await platform.get(f"/v2/key-value-stores/{run['defaultKeyValueStoreId']}/records/INPUT")
    return answer.raise_for_status().json()


def by_call_actor(**run_input: Any) -> dict[str, Any]:
    return call("call-actor", actor="outlast/vault", input=run_input)


def by_its_own_tool(**run_input: Any) -> dict[str, Any]:
    return call("outlast--vault", **run_input)


@pytest.mark.parametrize("as_call", [by_call_actor, by_its_own_tool])
async def test_a_mask_left_in_place_keeps_the_secret(stack: Stack, vault: httpx.AsyncClient, as_call: Any) -> None:
    task = await waiting(vault, as_call(apiKey=FIRST_KEY, login=LOGIN, note="old"))
    shown = task["input_requests"]["approval"]["handoff"]["parameters"]["arguments"]
    assert shown == as_call(apiKey=MASK, login=MASK, note="old")["arguments"]
    edited = as_call(apiKey=MASK, login=MASK, note="new")["arguments"]
    await taken(vault, task, {"decision": "yes", "arguments": edited})
    given = await given_to_the_run(stack, vault, task["id"])
    assert given == {"apiKey": FIRST_KEY, "login": LOGIN, "note": "new"}


@pytest.mark.parametrize("as_call", [by_call_actor, by_its_own_tool])
async def test_large_fields_are_shown_by_their_beginning_and_stay_when_left_in_place(
    stack: Stack, vault: httpx.AsyncClient, as_call: Any
) -> None:
    login, note = {"user": "ann", "password": PASSWORD * 4_000}, "a long note " * 10_000
    task = await waiting(vault, as_call(apiKey=FIRST_KEY, login=login, note=note))
    shown = task["input_requests"]["approval"]["handoff"]["parameters"]["arguments"]
    fields = shown.get("input", shown)
    assert (fields["login"], fields["note"]["$kept"]["size_bytes"]) == (MASK, len(note) + 2)
    assert fields["note"]["$kept"]["begin"].startswith('"a long note a long note')
    edited = as_call(apiKey=NEW_KEY, login=MASK, note=fields["note"])["arguments"]
    await taken(vault, task, {"decision": "yes", "arguments": edited})
    given = await given_to_the_run(stack, vault, task["id"])
    assert given == {"apiKey": NEW_KEY, "login": login, "note": note}


@pytest.mark.parametrize("as_call", [by_call_actor, by_its_own_tool])
async def test_a_new_value_is_checked_and_used(stack: Stack, vault: httpx.AsyncClient, as_call: Any) -> None:
    task = await waiting(vault, as_call(apiKey=FIRST_KEY, login=LOGIN))
    for wrong in ({"apiKey": "no key"}, {"apiKey": f"{MASK}!"}, {"apiKey": MASK, "note": 1}, {"login": MASK}):
        refused = await answered(vault, task, {"decision": "yes", "arguments": as_call(**wrong)["arguments"]})
        assert refused.status_code == 422, wrong
        assert refused.json()["error"]["violations"][0]["path"].startswith("/approval/arguments")
    edited = as_call(apiKey=NEW_KEY, login=MASK)["arguments"]
    await taken(vault, task, {"decision": "yes", "arguments": edited})
    assert await given_to_the_run(stack, vault, task["id"]) == {"apiKey": NEW_KEY, "login": LOGIN}


async def refused_at(api: httpx.AsyncClient, task: dict[str, Any], arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Where and why edited arguments are refused."""
    response = await answered(api, task, {"decision": "yes", "arguments": arguments})
    assert response.status_code == 422, response.text
    return [(entry["path"], entry["message"]) for entry in response.json()["error"]["violations"]]


async def test_a_mask_where_no_secret_was_is_refused(stack: Stack, vault: httpx.AsyncClient) -> None:
    """So that no secret is moved to where it would be read, and no Actor is given a word for a key."""
    task = await waiting(vault, by_its_own_tool(apiKey=FIRST_KEY, note="old"))
    edited = by_its_own_tool(apiKey=MASK, note=MASK, login=MASK)["arguments"]
    for (path, message), field in zip(await refused_at(vault, task, edited), ("login", "note"), strict=True):
        assert path.endswith(f"/arguments/{field}")
        assert "write the value itself" in message
    await taken(vault, task, {"decision": "yes", "arguments": by_its_own_tool(apiKey=MASK)["arguments"]})
    assert await given_to_the_run(stack, vault, task["id"]) == {"apiKey": FIRST_KEY}


async def test_a_secret_is_not_handed_to_another_actor(vault: httpx.AsyncClient) -> None:
    task = await waiting(vault, by_call_actor(apiKey=FIRST_KEY))
    for actor, why in (("outlast/sleeper", "given for outlast/vault"), ("outlast/absent", "write the value itself")):
        other = by_call_actor(apiKey=MASK)["arguments"] | {"actor": actor}
        ((path, message),) = await refused_at(vault, task, other)
        assert path.endswith("/arguments/input/apiKey")
        assert why in message
    await taken(vault, task, {"decision": "no"})


async def test_a_saved_task_is_approved_for_its_actor(stack: Stack, vault: httpx.AsyncClient) -> None:
    """Whoever approves sees which Actor it is; a secret goes to no other saved task, nor to one that takes its name."""
    ids = {actor: stack.sandbox.save_task(f"outlast/{actor}", name=f"of-{actor}") for actor in ("vault", "sleeper")}
    body = call("call-actor-task", actorTaskId="sandbox/of-vault", input={"apiKey": FIRST_KEY})
    task, second, third = [await waiting(vault, body) for _ in range(3)]
    shown = task["input_requests"]["approval"]["handoff"]["parameters"]
    assert (shown["actor"], shown["arguments"]["input"]) == ("outlast/vault", MASK)
    other = {"actorTaskId": "sandbox/of-sleeper", "input": MASK}
    ((path, message),) = await refused_at(vault, task, other)
    assert (path, message) == (
        "/approval/arguments/input",
        "This secret was given for sandbox/of-vault: write the one for another Actor.",
    )
    await taken(vault, task, {"decision": "yes"})
    assert (await given_to_the_run(stack, vault, task["id"]))["apiKey"] == FIRST_KEY
    # A person may choose another task: the rules are asked about that one.
    await taken(
        vault, second, {"decision": "yes", "arguments": {"actorTaskId": ids["sleeper"], "input": {"seconds": 0}}}
    )
    assert (await result(vault, second["id"]))["structured"]["actorName"] == "outlast/sleeper"
    starts = stack.sandbox.counters["startsAccepted"]
    stack.sandbox.delete_task(ids["vault"])
    stack.sandbox.save_task("outlast/sleeper", name="of-vault")
    await taken(vault, third, {"decision": "yes"})
    refused = (await result(vault, third["id"]))["error"]
    assert (refused["category"], "one of outlast/sleeper now" in refused["message"]) == ("conflict", True)
    assert stack.sandbox.counters["startsAccepted"] == starts


async def test_the_input_of_an_actor_that_is_not_known_is_masked_as_a_whole(vault: httpx.AsyncClient) -> None:
    """Nobody can tell what of it is secret."""
    body = call("call-actor", actor="outlast/absent", input={"apiKey": FIRST_KEY, "note": "old"})
    task = await waiting(vault, body)
    shown = task["input_requests"]["approval"]["handoff"]["parameters"]["arguments"]
    assert shown == {"actor": "outlast/absent", "input": MASK}
    await taken(vault, task, {"decision": "yes", "arguments": shown})
    assert (await result(vault, task["id"]))["error"]["category"] == "not_found"


async def test_neither_the_first_nor_the_edited_secrets_can_be_read_anywhere(
    stack: Stack, vault: httpx.AsyncClient
) -> None:
    task = await waiting(vault, by_call_actor(apiKey=FIRST_KEY, login=LOGIN))
    edited = by_call_actor(apiKey=NEW_KEY, login=MASK, note="may be read")["arguments"]
    await taken(vault, task, {"decision": "yes", "arguments": edited})
    await given_to_the_run(stack, vault, task["id"])
    told = [event.data async for event in events(vault, task["id"])]
    places = {**stack.files(), "events": json.dumps(told).encode(), "tasks": (await vault.get("/v1/tasks")).content}
    places["history"] = await history(await connect(stack.service.temporal_address), task["id"])
    assert b"may be read" in places["history"]
    assert task["id"].encode() in b"".join(content for name, content in places.items() if "temporal.db" in name)
    planted = [text.encode() for text in (FIRST_KEY, NEW_KEY, PASSWORD)]
    assert [name for name, content in places.items() if any(text in content for text in planted)] == []


async def test_a_wrong_secret_of_a_refused_call_is_not_told_to_its_session(
    stack: Stack, vault: httpx.AsyncClient
) -> None:
    wrong = "hunter2-is-no-key"
    for body in (by_its_own_tool(apiKey=wrong), by_call_actor(apiKey=wrong)):
        refused = await vault.post("/v1/tasks", json={**body, "session_id": "refused"})
        assert refused.status_code == 422, refused.text
    told = (await session_events(vault, "refused", 2))[1].data
    assert told["error"]["violations"][0]["path"] == "/input/apiKey"
    client = await connect(stack.service.temporal_address)
    places = {**stack.files(), "history": await history(client, session_workflow_id("local", "refused"))}
    assert b"apiKey" in places["history"]
    assert [name for name, content in places.items() if wrong.encode() in content] == []


async def test_secrets_of_a_call_that_a_function_makes_are_sealed(stack: Stack, vault: httpx.AsyncClient) -> None:
    word = "0terces-detnalp"
    task_id = await started(vault, call("keep_in_vault", word=word))

    async def made() -> str | None:
        listed = (await vault.get("/v1/tasks")).json()["tasks"]
        return next((one["id"] for one in listed if one.get("called_by") == task_id), None)

    inner = await eventually(made)
    task = await asks(vault, inner)
    shown = task["input_requests"]["approval"]["handoff"]["parameters"]["arguments"]
    assert shown["input"] == {"apiKey": MASK, "note": word}
    await taken(vault, task, {"decision": "yes"})
    assert await given_to_the_run(stack, vault, inner) == {"apiKey": f"key-{word[::-1]}", "note": word}
    assert not (await result(vault, task_id))["is_error"]
    refused = await started(vault, call("keep_in_vault", word=word, name="outlast--vault"))
    assert (await result(vault, refused))["error"]["category"] == "not_found"
    client = await connect(stack.service.temporal_address)
    places = {**stack.files(), **{one: await history(client, one) for one in (task_id, inner, refused)}}
    assert word.encode() in places[inner]
    assert [name for name, content in places.items() if word[::-1].encode() in content] == []


async def history(client: Client, task_id: str) -> bytes:
    """All that Temporal knows of a task, with payloads as they are written."""
    handle = client.get_workflow_handle(task_id)
    events = (await handle.fetch_history()).events
    description = (await handle.describe()).raw_description
    return b"".join(event.SerializeToString() for event in events) + description.SerializeToString()
