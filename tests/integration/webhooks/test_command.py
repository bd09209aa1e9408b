"""`outlast webhooks` and `client.webhooks`, used beside a real stack."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from outlast.client import AsyncClient, NotFound, WebhookBacklog
from outlast.client import Client as BlockingClient
from tests.integration.webhooks.conftest import ANN
from tests.support.calls.tasks import completed, sleeper_call
from tests.support.calls.webhooks import delivery_of, received, verified
from tests.support.eventually import eventually
from tests.support.http.webhooks import WebhookReceiver
from tests.support.stacks.service import Service


class Shell:
    """Where ann types."""

    def __init__(self, service: Service, folder: Path) -> None:
        self._folder = folder
        self._options = ("--url", service.api_url, "--token", ANN)

    async def outlast(self, *arguments: str, code: int = 0) -> str:
        command = (sys.executable, "-m", "outlast.cli", "webhooks", *arguments, *self._options)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, cwd=self._folder, stdout=pipe, stderr=pipe)
        out, said = await process.communicate()
        assert process.returncode == code, said.decode()
        return out.decode() if code == 0 else said.decode()


@pytest.fixture
def shell(service: Service, tmp_path: Path) -> Shell:
    return Shell(service, tmp_path)


async def test_a_webhook_is_made_tested_changed_rotated_and_removed_by_commands(
    shell: Shell, receiver: WebhookReceiver
) -> None:
    secret = (await shell.outlast("create", receiver.url, "--event", "task.failed", "--name", "ours")).strip()
    (webhook,) = json.loads(await shell.outlast("ls", "--json"))["webhooks"]
    assert (webhook["url"], webhook["events"], webhook["name"]) == (receiver.url, ["task.failed"], "ours")
    assert receiver.url in await shell.outlast("get", webhook["id"])
    delivery = json.loads(await shell.outlast("test", webhook["id"], "--json"))
    verified(await received(receiver, webhook["id"]), secret)
    assert delivery["event_id"] in await shell.outlast("delivery", delivery["id"])

    assert "  off" in await shell.outlast("update", webhook["id"], "--off", "--all-events")
    await shell.outlast("update", webhook["id"], "--event", "task.failed", "--all-events", code=2)
    rotated = (await shell.outlast("rotate", webhook["id"], "--grace", "1h")).strip()
    assert rotated.startswith("whsec_")
    assert rotated != secret
    await shell.outlast("rm", webhook["id"])
    assert "webhook" in await shell.outlast("get", webhook["id"], code=2)


async def test_what_was_not_delivered_is_listed_and_replayed_by_commands(
    shell: Shell, service: Service, receiver: WebhookReceiver
) -> None:
    await shell.outlast("create", receiver.url, "--event", "task.completed")
    receiver.answers += [410]
    async with service.http(ANN) as api:
        task_id = (await completed(api, sleeper_call(0)))["task"]["id"]
        lost = await delivery_of(api, task_id, "undelivered")
    assert lost["id"] in await shell.outlast("deliveries")
    assert await shell.outlast("deliveries", "--status", "delivering") == ""
    await shell.outlast("replay", code=2)
    await shell.outlast("update", lost["webhook_id"], "--on")
    assert json.loads(await shell.outlast("replay", "--all", "--json")) == {"replayed": 1}
    request = await received(receiver, task_id, attempts=2)
    assert request.headers["webhook-id"] == lost["event_id"]
    replayed = json.loads(await shell.outlast("replay", lost["id"], "--json"))
    assert replayed["event_id"] == lost["event_id"]
    await received(receiver, task_id, attempts=3)


async def test_commands_and_clients_show_what_waits_and_why(
    shell: Shell, service: Service, receiver: WebhookReceiver
) -> None:
    receiver.otherwise, receiver.retry_after = 503, "3600"
    await shell.outlast("create", receiver.url, "--event", "task.completed")
    async with AsyncClient(service.api_url, ANN) as client:
        (webhook,) = await client.webhooks.list()
        delivery = await client.webhooks.test(webhook.id)

        async def backlog() -> WebhookBacklog | None:
            found = (await client.webhooks.get(webhook.id)).backlog
            return found if found is not None and found.failing_since is not None else None

        waiting = await eventually(backlog)
        assert (waiting.events, waiting.message) == (1, "It answered 503.")
        with BlockingClient(service.api_url, ANN) as blocking:
            shown = await asyncio.to_thread(blocking.webhooks.get, webhook.id)
            assert shown.backlog is not None
            assert shown.backlog.next_attempt_at == waiting.next_attempt_at
        single = await client.webhooks.delivery(delivery.id)
        assert (single.message, single.next_attempt_at) == ("It answered 503.", waiting.next_attempt_at)
    printed = await shell.outlast("get", webhook.id)
    assert "waiting  1 event\n" in printed
    assert "UTC: It answered 503." in printed
    assert "next attempt" in printed
    (listed,) = json.loads(await shell.outlast("ls", "--json"))["webhooks"]
    assert listed["backlog"]["message"] == "It answered 503."
    printed = await shell.outlast("delivery", delivery.id)
    assert "It answered 503." in printed
    assert "next attempt" in printed


async def test_the_client_does_what_the_routes_do(service: Service, receiver: WebhookReceiver) -> None:
    async with AsyncClient(service.api_url, ANN) as client:
        made = await client.webhooks.create(receiver.url, ["task.completed"], name="ours")
        assert [one.id for one in await client.webhooks.list()] == [made.id]
        assert (await client.webhooks.get(made.id)).secret is None
        own = {"url": f"{receiver.url}/own", "secret": made.secret}
        answer = await client.call("outlast/sleeper", {"seconds": 0}, webhooks=[own])
        request = await received(receiver, answer.task.id, attempts=2)
        assert verified(request, made.secret or "")["data"]["task_id"] == answer.task.id
        rotated = await client.webhooks.rotate_secret(made.id, grace_seconds=60)
        assert rotated.secret != made.secret
        assert rotated.old_secret_until is not None
        off = await client.webhooks.update(made.id, enabled=False, events=[])
        assert not off.enabled
        assert "batch.completed" in off.events
        tested = await client.webhooks.test(made.id)
        assert (await client.webhooks.delivery(tested.id)).event_id == tested.event_id
        async with client.webhooks.deliveries("delivered", limit=1) as delivered:
            assert [one.status async for one in delivered] == ["delivered"]
        await client.webhooks.delete(made.id)
        with pytest.raises(NotFound):
            await client.webhooks.get(made.id)
