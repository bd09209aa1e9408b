"""A caller sees its own tasks and nobody else's, whichever way it asks."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, StartWorkflowInput, WorkflowHandle

from outlast.workflows.contracts.sessions import session_workflow_id
from outlast.workflows.session import SessionWorkflow
from tests.support.calls.tasks import completed, result_of, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox, SandboxUser

ALICE, BOB = bearer("alice-key-0123456789"), bearer("bob-key-0123456789ab")


@pytest.fixture
async def shared_api(temporal: Client, sandbox: Sandbox) -> AsyncIterator[httpx.AsyncClient]:
    """An API with two API keys, which also takes Apify tokens."""
    settings = api_settings(sandbox, api_keys="alice:alice-key-0123456789,bob:bob-key-0123456789ab")
    async with serving_api(temporal, settings) as api:
        yield api


@pytest.fixture
def users(sandbox: Sandbox) -> tuple[SandboxUser, SandboxUser]:
    return sandbox.add_user("carol"), sandbox.add_user("dave")


async def sees_nothing_of(api: httpx.AsyncClient, stranger: dict[str, str], task_id: str) -> None:
    for path in ("", "/result", "/events"):
        response = await api.get(f"/v1/tasks/{task_id}{path}", headers=stranger)
        assert (response.status_code, response.json()["type"]) == (404, "urn:outlast:problem:task-not-found")
    assert (await api.post(f"/v1/tasks/{task_id}/cancel", headers=stranger)).status_code == 404
    assert task_id not in await listed(api, stranger)


async def listed(api: httpx.AsyncClient, headers: dict[str, str], **params: Any) -> list[str]:
    response = await api.get("/v1/tasks", headers=headers, params={"page_size": 200, **params})
    assert response.status_code == 200
    return [task["id"] for task in response.json()["tasks"]]


async def test_callers_by_api_key_never_see_each_others_tasks(shared_api: httpx.AsyncClient) -> None:
    for mine, other in ((ALICE, BOB), (BOB, ALICE)):
        task_id = (await completed(shared_api, sleeper_call(0), **mine))["task"]["id"]

        async def shown(task_id: str = task_id, mine: dict[str, str] = mine) -> bool:
            return task_id in await listed(shared_api, mine)

        await eventually(shown)
        assert (await shared_api.get(f"/v1/tasks/{task_id}", headers=mine)).status_code == 200
        await sees_nothing_of(shared_api, other, task_id)


async def test_apify_users_run_on_their_own_account_and_see_their_own_tasks(
    shared_api: httpx.AsyncClient, users: tuple[SandboxUser, SandboxUser], sandbox: Sandbox
) -> None:
    carol, dave = (bearer(user.token) for user in users)
    answer = await completed(shared_api, sleeper_call(0), **carol)
    assert answer["task"]["status"] == "completed"
    run_id = answer["task"]["run"]["run_id"]
    await sees_nothing_of(shared_api, dave, answer["task"]["id"])
    await sees_nothing_of(shared_api, ALICE, answer["task"]["id"])
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        sandbox.run(run_id)  # it is carol's run, not the operator's
    body = {"tool": "get-actor-run", "arguments": {"runId": run_id}}
    assert (await completed(shared_api, body, **carol))["task"]["status"] == "completed"
    refused = await completed(shared_api, body, **dave)
    assert refused["result"]["error"]["category"] == "not_found"


async def test_the_same_session_and_key_of_different_callers_do_not_meet(
    shared_api: httpx.AsyncClient, temporal: Client
) -> None:
    ids = {}
    for name, caller in (("alice", ALICE), ("bob", BOB)):
        body = sleeper_call(0) | {"session_id": "shared-name"}
        ids[name] = (await completed(shared_api, body, **caller, **{"Idempotency-Key": "shared-key"}))["task"]["id"]
    assert ids["alice"] != ids["bob"]
    for name, task_id in ids.items():
        handle = temporal.get_workflow_handle_for(
            SessionWorkflow.run, session_workflow_id(f"key:{name}", "shared-name")
        )

        async def heard(handle: Any = handle) -> list[str]:
            return [event.task_completed.task_id for event in await handle.query(SessionWorkflow.events)]

        assert await eventually(heard) == [task_id]


async def test_nobody_guesses_the_task_of_anothers_idempotency_key(shared_api: httpx.AsyncClient) -> None:
    mine = await started(shared_api, sleeper_call(0), **ALICE, **{"Idempotency-Key": "k"})
    others = await started(shared_api, sleeper_call(0), **BOB, **{"Idempotency-Key": "k"})
    assert mine != others


async def many_tasks(api: httpx.AsyncClient, caller: dict[str, str]) -> dict[str, set[str]]:
    """Eleven tasks that have ended: what has come of each, and which belong to session s-1."""
    made: dict[str, set[str]] = {"completed": set(), "failed": set(), "s-1": set()}
    for number in range(11):
        failing = {"tool": "get-actor-run", "arguments": {"runId": "absent"}}
        body = failing if number % 3 == 0 else sleeper_call(0, mode="openai" if number % 2 else None)
        in_session = number % 4 == 0
        task = (await completed(api, body | ({"session_id": "s-1"} if in_session else {}), **caller))["task"]
        made[task["status"]].add(task["id"])
        if in_session:
            made["s-1"].add(task["id"])
    return made


async def paged(api: httpx.AsyncClient, caller: dict[str, str], page_size: int) -> list[str]:
    ids: list[str] = []
    params: dict[str, Any] = {"page_size": page_size}
    while True:
        page = (await api.get("/v1/tasks", headers=caller, params=params)).json()
        assert len(page["tasks"]) <= page_size
        ids += [task["id"] for task in page["tasks"]]
        if not page.get("next_page_token"):
            return ids
        params["page_token"] = page["next_page_token"]


async def test_lists_are_filtered_and_paged_without_loss_or_repetition(
    shared_api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    caller = bearer(sandbox.add_user("erin").token)
    made = await many_tasks(shared_api, caller)
    open_task = await started(shared_api, sleeper_call(60), **caller)

    async def settled() -> bool:
        # Visibility follows the histories with a delay.
        assert set(await listed(shared_api, caller, status="failed")) == made["failed"]
        assert set(await listed(shared_api, caller, status="completed")) == made["completed"]
        assert await listed(shared_api, caller, status="working") == [open_task]
        return True

    await eventually(settled)
    for page_size in (3, 4, 200):
        pages = await paged(shared_api, caller, page_size)
        assert len(pages) == len(set(pages))
        assert set(pages) == made["completed"] | made["failed"] | {open_task}
    assert await listed(shared_api, caller, status="cancelled") == []
    assert set(await listed(shared_api, caller, tool="get-actor-run")) == made["failed"]
    assert set(await listed(shared_api, caller, session_id="s-1")) == made["s-1"]
    assert set(await listed(shared_api, caller, session_id="s-1", status="failed")) == made["s-1"] & made["failed"]
    assert await listed(shared_api, caller, tool="' OR 1=1 --") == []
    assert (await shared_api.post(f"/v1/tasks/{open_task}/cancel", headers=caller)).status_code == 202
    assert (await result_of(shared_api, open_task, **caller))["task"]["status"] == "cancelled"


async def test_a_page_token_of_another_caller_or_filter_is_refused(shared_api: httpx.AsyncClient) -> None:
    for _ in range(2):
        await completed(shared_api, sleeper_call(0), **ALICE)

    async def next_token() -> str | None:
        page = await shared_api.get("/v1/tasks", headers=ALICE, params={"page_size": 1})
        return page.json().get("next_page_token")

    token = await eventually(next_token)
    for headers, params in ((BOB, {}), (ALICE, {"status": "completed"})):
        response = await shared_api.get("/v1/tasks", headers=headers, params={"page_token": token, **params})
        assert (response.status_code, "another list" in response.json()["detail"]) == (400, True)


class HeldStarts(Interceptor):
    """A client of Temporal whose starts of workflows wait, as on a server that is slow. Counts them by caller."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = Counter[str]()
        self.release = asyncio.Event()

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002  # the SDK's name
        held = self

        class Held(OutboundInterceptor):
            async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002
                held.begun[input.args[0].caller.id] += 1
                await held.release.wait()
                return await super().start_workflow(input)

        return Held(next)


async def test_a_callers_starts_wait_behind_each_other_and_not_in_front_of_others(
    temporal: Client, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one caller are begun four at a time. While others are served, a rest follows each.

    Where starts stand still, more are begun after three seconds, and what has no turn in thirty is refused.
    """
    starts = HeldStarts()
    loop, ahead = asyncio.get_running_loop(), 0.0
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + ahead)
    config = temporal.config()
    client = Client(**{**config, "interceptors": [*config["interceptors"], starts]})
    settings = api_settings(sandbox, api_keys="alice:alice-key-0123456789,bob:bob-key-0123456789ab")
    async with serving_api(client, settings) as api, asyncio.TaskGroup() as requests:

        def start(whose: dict[str, str]) -> asyncio.Task[httpx.Response]:
            return requests.create_task(api.post("/v1/tasks", headers=whose, json=sleeper_call(0)))

        try:
            of_alice = [start(ALICE) for _ in range(16)]
            await eventually(lambda: starts.begun["key:alice"] >= 4)
            ahead += 2
            of_bob = [start(BOB)]
            await eventually(lambda: starts.begun["key:bob"] == 1)
            assert starts.begun["key:alice"] == 4
            ahead += 1.5
            await eventually(lambda: starts.begun["key:alice"] >= 8)
            ahead += 0.9
            of_bob.append(start(BOB))
            await eventually(lambda: starts.begun["key:bob"] == 2)
            assert starts.begun["key:alice"] == 8
        finally:
            starts.release.set()
        # Those that were begun last took nearly a second: their places rest.
        await eventually(lambda: sum(one.done() for one in of_alice) == 8)
        assert starts.begun["key:alice"] == 8
        ahead += 5
        answered = [(await one).status_code for one in (*of_alice, *of_bob)]
        assert answered == [201] * 18
