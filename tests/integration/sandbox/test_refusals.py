"""What the platform refuses, and in which words."""

from typing import Any

import httpx
import pytest
from apify_client import ApifyClientAsync
from apify_client.errors import ApifyApiError

from tests.integration.sandbox.server import TOKEN, SandboxServer

PROBE = "outlast/probe"


async def refusal_of(call: Any) -> tuple[int, str | None, str | None]:
    with pytest.raises(ApifyApiError) as caught:
        await call
    return caught.value.status_code, caught.value.type, caught.value.message


async def test_a_wrong_token(sandbox: SandboxServer) -> None:
    status, error_type, _ = await refusal_of(sandbox.client("nobody's").user().get())
    assert (status, error_type) == (401, "user-or-token-not-found")


def test_no_token(sandbox: SandboxServer) -> None:
    answer = httpx.get(f"{sandbox.url}/v2/actor-runs", timeout=180)
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "token-not-provided")


def test_the_token_may_stand_in_the_query(sandbox: SandboxServer) -> None:
    answer = httpx.get(f"{sandbox.url}/v2/users/me", params={"token": TOKEN}, timeout=180)
    assert answer.json()["data"]["username"] == "sandbox"


@pytest.mark.parametrize(
    ("run_input", "message"),
    [
        ({}, "Input is not valid: Field input.do is required"),
        ({"do": "push", "rows": "many"}, "Input is not valid: Field input.rows must be integer"),
        ({"do": "push", "rows": -1}, "Input is not valid: Field input.rows must be >= 0"),
        ({"do": "dance"}, "Input is not valid: Field input.do must be equal to one of the allowed values"),
        (
            {"do": "push", "urls": [{"link": "x"}]},
            "Input is not valid: Field input.urls.0 must be an object with 'url'",
        ),
    ],
)
async def test_input_that_breaks_the_schema(client: ApifyClientAsync, run_input: object, message: str) -> None:
    status, error_type, said = await refusal_of(client.actor(PROBE).start(run_input=run_input))
    assert (status, error_type) == (400, "invalid-input")
    assert said is not None
    assert said.startswith(message)


async def test_input_that_is_not_json(client: ApifyClientAsync) -> None:
    start = client.actor(PROBE).start(run_input=b"{", content_type="application/json")
    assert (await refusal_of(start))[:2] == (400, "run-input-body-not-valid-json")


@pytest.mark.parametrize("memory_mbytes", [64, 1000, 65536])
async def test_memory_that_the_platform_does_not_offer(client: ApifyClientAsync, memory_mbytes: int) -> None:
    start = client.actor(PROBE).start(run_input={"do": "push"}, memory_mbytes=memory_mbytes)
    assert (await refusal_of(start))[0] == 400


async def test_more_memory_than_the_account_has(sandbox: SandboxServer) -> None:
    """With an account of its own: what other tests left running counts for theirs."""
    client = sandbox.client(sandbox.add_user("short-of-memory"))
    running = await client.actor(PROBE).start(run_input={"do": "sleep"}, memory_mbytes=2048)

    start = client.actor(PROBE).start(run_input={"do": "push"}, memory_mbytes=4096)
    status, error_type, message = await refusal_of(start)

    assert (status, error_type) == (402, "actor-memory-limit-exceeded")
    assert message is not None
    assert "currently used: 2048MB, requested: 4096MB" in message
    assert [run.id for run in (await client.runs().list()).items] == [running.id]
    await client.run(running.id).abort()
    await client.run(running.id).wait_for_finish()
    run = await client.actor(PROBE).call(run_input={"do": "push"}, memory_mbytes=4096, logger=None)
    assert run is not None
    assert run.status == "SUCCEEDED", "there is room again"


async def test_more_runs_than_the_account_may_have(client: ApifyClientAsync, sandbox: SandboxServer) -> None:
    sandbox.control.post("/limits", json={"concurrentRuns": 0})
    start = client.actor(PROBE).start(run_input={"do": "push"})
    assert (await refusal_of(start))[:2] == (402, "concurrent-runs-limit-exceeded")


async def test_an_unknown_actor(client: ApifyClientAsync) -> None:
    assert await client.actor("nobody/nothing").get() is None
    start = client.actor("nobody/nothing").start(run_input={})
    assert (await refusal_of(start))[:2] == (404, "record-not-found")


async def test_another_users_objects_are_not_found(client: ApifyClientAsync, sandbox: SandboxServer) -> None:
    run = await client.actor(PROBE).call(run_input={"do": "push"}, logger=None)
    assert run is not None
    stranger = sandbox.client(sandbox.add_user("stranger"))

    assert await stranger.run(run.id).get() is None
    assert await stranger.dataset(run.default_dataset_id).get() is None
    assert await stranger.key_value_store(run.default_key_value_store_id).get() is None
    assert await stranger.request_queue(run.default_request_queue_id).get() is None
    assert await stranger.log(run.id).get() is None
    assert (await stranger.runs().list()).total == 0
    assert (await refusal_of(stranger.run(run.id).abort()))[:2] == (404, "record-not-found")
    items = stranger.dataset(run.default_dataset_id).list_items()
    assert (await refusal_of(items))[:2] == (404, "record-not-found")


async def test_a_private_actor_is_its_owners_only(client: ApifyClientAsync, sandbox: SandboxServer) -> None:
    assert await client.actor("visitor/clerk").get() is None
    owner = sandbox.client(sandbox.add_user("visitor"))
    run = await owner.actor("visitor/clerk").call(logger=None)
    assert run is not None
    assert run.status == "SUCCEEDED"


def test_an_address_that_is_no_part_of_the_api(sandbox: SandboxServer) -> None:
    assert httpx.get(f"{sandbox.url}/v2/browser-info", timeout=180).json()["error"]["type"] == "page-not-found"
    assert httpx.patch(f"{sandbox.url}/v2/store", timeout=180).status_code == 405


def test_a_broken_actor_folder_is_a_warning(sandbox: SandboxServer) -> None:
    assert "'name' must be lower-case letters, digits and hyphens" in sandbox.log_path.read_text()


def test_tokens_are_in_no_log(sandbox: SandboxServer) -> None:
    httpx.get(f"{sandbox.url}/v2/users/me", params={"token": TOKEN}, timeout=180)
    assert TOKEN not in sandbox.log_path.read_text()
