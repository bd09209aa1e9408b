"""`python -m tests.histories.record [KIND...]` (or `make histories`): record one history of each kind of workflow.

They are written to `unreleased/` and replayed by tests/unit/workflows/test_replay.py, as are those of every release,
which `make release` keeps in a folder of its own. Those are never recorded anew: a change of what a workflow does
needs `workflow.patched`.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.webhooks.contracts import queue_id, subscriptions_id
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.contracts.sessions import session_workflow_id, turn_workflow_id
from outlast.workflows.contracts.tool_calls import AdmittedTool, ToolCall, ToolKind, ToolOutcome
from tests.histories import commands
from tests.histories.commands import UNRELEASED
from tests.support.calls.batches import begun, carried_out, ended, sleepers
from tests.support.calls.questions import asks, result, taken, waiting
from tests.support.calls.schedules import fired, scheduled
from tests.support.calls.tasks import Event, completed, events, result_of, sleeper_call, started
from tests.support.calls.turns import named, new_session, streamed
from tests.support.calls.webhooks import delivery_of
from tests.support.eventually import eventually
from tests.support.http.webhooks import receiving_webhooks
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import running_provider
from tests.support.stacks.api_server import connect
from tests.support.stacks.sandbox import running_sandbox
from tests.support.stacks.service import running_service
from tests.support.stacks.temporal import running_temporal

TOOL_MODULES = ("docs.examples.hello_tools", "tests.support.tools.step_tools", "tests.support.tools.calling_tools")
"""Their tools are called; a replay needs them, too."""
SESSION = "recorded"
TALKING_SESSION = "recorded-talk"
TURN_SESSION = "recorded-turn"
MODEL = by_position(
    says("Let me see. ", Call("hello_world", {"name": "Ann"}), Call("pick_colour", {"colours": ["red", "blue"]})),
    says(Call("hello_wrld", {}), Call("hello_world", {"name": "Bob"})),
    says("Ann, Bob and red."),
)
"""Two tools at once, one of which asks; an unknown tool; the end."""


async def record(api: httpx.AsyncClient, client: Client) -> dict[str, str]:
    """Make the calls; gives the workflow of each kind, ended or, for the session, as it stands."""
    in_session = {"session_id": SESSION}
    sync = await completed(api, sleeper_call(0.2, rows=3) | in_session)
    asynchronous = await completed(api, sleeper_call(0.2, mode="openai") | in_session)
    await client.get_workflow_handle(asynchronous["task"]["id"]).result()
    failed = await completed(api, sleeper_call(0.1, failWith={"exitCode": 3, "message": "Out of luck"}) | in_session)
    refused = await completed(api, {"tool": "get-actor-run", "arguments": {"runId": "absent"}})
    read = await completed(api, _read(sync))
    return {
        "sync_call": sync["task"]["id"],
        "async_call": asynchronous["task"]["id"],
        "failed_run": failed["task"]["id"],
        "refused_call": refused["task"]["id"],
        "dataset_items": read["task"]["id"],
        "cancelled_call": await _cancelled(api),
        "deadline": (await completed(api, sleeper_call(60) | {"options": {"deadline_seconds": 1}}))["task"]["id"],
        "handed_off_call": await _answered(api, "pick_colour", {"colours": ["red", "blue"]}, {"colour": "red"}),
        "approved_call": await _answered(api, "say_message", {"text": "hey", "tone": "loud"}, {"decision": "yes"}),
        "decided_call": await _answered(api, "refund", {"order": "1", "amount": 500}, {"decision": "yes"}),
        "call_with_steps": await _booked(api),
        "call_of_tools": await _called(api),
        "call_of_removed_tool": await _of_removed_tool(client),
        "session": session_workflow_id("local", SESSION),
        **await _batches(api),
        "firing": (await _fired(api))["id"],
        **await _webhooks(api),
        **await _waiting_event(api),
        **await _shared_tools(api),
        **await _turn(api),
    }


async def _booked(api: httpx.AsyncClient) -> str:
    """A call whose function has steps, a question, a sleep and an approval."""
    task = await waiting(api, {"tool": "booking", "arguments": {"folder": tempfile.gettempdir()}})
    await taken(api, task, {"answer": "aisle"})
    await taken(api, await asks(api, task["id"]), {"decision": "yes"})
    assert not (await result(api, task["id"]))["is_error"]
    return task["id"]


async def _called(api: httpx.AsyncClient) -> str:
    """A call whose function calls two tools at the same time, of which one is refused, and one runs an Actor."""
    with tempfile.TemporaryDirectory() as folder:
        answer = await completed(api, {"tool": "several", "arguments": {"folder": folder}})
    assert not answer["result"]["is_error"]
    return answer["task"]["id"]


async def _of_removed_tool(client: Client) -> str:
    """A call that fails because its tool was removed before it began: its worker has the module, without the tool."""
    admitted = AdmittedTool(module=TOOL_MODULES[0], kind=ToolKind.FUNCTION)
    call = ToolCall(tool="removed", arguments={}, mode="default", caller=Caller(id="local"), admitted_tool=admitted)
    task_id = "call-of-removed-tool"
    outcome: ToolOutcome = await client.execute_workflow(
        "ToolCallWorkflow", call, id=task_id, task_queue=TOOLS_TASK_QUEUE, result_type=ToolOutcome
    )
    assert outcome.result.error is not None
    assert outcome.result.error.category == "conflict"
    return task_id


async def _batches(api: httpx.AsyncClient) -> dict[str, str]:
    """A batch that is completed, one that is cancelled, and one whose failed items run again."""
    items = [{"arguments": {"runId": f"absent{number}"}} for number in range(3)]
    cancelled = await begun(api, sleepers(2, 60))
    retried = (await carried_out(api, {"tool": "get-actor-run", "items": items}))["id"]
    await api.post(f"/v1/batches/{cancelled}/cancel")
    await api.post(f"/v1/batches/{retried}/retry", json={})
    for batch_id in (cancelled, retried):
        await ended(api, batch_id)
    return {
        "batch": (await carried_out(api, sleepers(3, 0.1, budget_usd="1")))["id"],
        "cancelled_batch": cancelled,
        "retried_batch": retried,
    }


async def _fired(api: httpx.AsyncClient) -> dict[str, str]:
    """A firing of a schedule, which ends with a failure that pauses the schedule."""
    call = {"tool": "get-actor-run", "arguments": {"runId": "absent"}}
    await scheduled(api, "recorded", call=call, pause_on=["not_found"])
    return await fired(api, "recorded")


async def _webhooks(api: httpx.AsyncClient) -> dict[str, str]:
    """A call that a subscription and a webhook of its own hear of. The receiver wants no events."""
    with receiving_webhooks() as receiver:
        receiver.otherwise = 410
        secret = "whsec_" + "cmVjb3Jk" * 4
        webhook = (await api.post("/v1/webhooks", json={"url": receiver.url, "events": ["task.completed"]})).json()
        own = {"url": receiver.url, "secret": secret, "events": ["task.completed"]}
        heard = await completed(api, sleeper_call(0.1) | {"options": {"webhooks": [own]}})
        task_id = heard["task"]["id"]
        lost = await delivery_of(api, task_id, "undelivered", webhook_id=webhook["id"])
    await api.post(f"/v1/webhooks/{webhook['id']}/rotate", json={})
    await api.patch(f"/v1/webhooks/{webhook['id']}", json={"enabled": False})
    await api.delete(f"/v1/webhooks/{webhook['id']}")
    return {"heard_call": task_id, "lost_event": lost["id"], "webhooks": subscriptions_id("local")}


async def _waiting_event(api: httpx.AsyncClient) -> dict[str, str]:
    """An event that waits for a receiver that fails, until its webhook is removed."""
    webhook = (await api.post("/v1/webhooks", json={"url": "http://receiver.invalid/hooks"})).json()
    delivery = (await api.post(f"/v1/webhooks/{webhook['id']}/test")).json()["id"]

    async def has_status(status: str, attempts: int = 0) -> bool:
        seen = (await api.get(f"/v1/webhooks/deliveries/{delivery}")).json()
        return seen["status"] == status and (seen.get("attempts") or 0) >= attempts

    await eventually(lambda: has_status("delivering", 2))
    await api.delete(f"/v1/webhooks/{webhook['id']}")
    await eventually(lambda: has_status("dropped"))
    return {"waiting_event": delivery, "webhook_queue": queue_id("local")}


async def _turn(api: httpx.AsyncClient) -> dict[str, str]:
    """A turn, the session that gave it its place, and a call that it made."""
    session = await new_session(api, sessionId=TURN_SESSION, tools=["dev"])
    seen: list[Event] = []
    async for event in streamed(api, session, "Greet them, and choose a colour."):
        seen.append(event)
        if event.name == "hand-off":
            await taken(api, await asks(api, event.data["task_id"]), {"colour": "red"})
    return {
        "turn": turn_workflow_id("local", session, named(seen, "finish")[0]["turn_id"]),
        "turn_session": session_workflow_id("local", session),
        "turn_call": named(seen, "hand-off")[0]["task_id"],
    }


async def _shared_tools(api: httpx.AsyncClient) -> dict[str, str]:
    """An update, which its session takes as well, and a command."""
    in_session = {"session_id": TALKING_SESSION}
    update = await completed(api, {"tool": "send_update", "arguments": {"message": "Reading."}} | in_session)
    command = await completed(api, {"tool": "Bash", "arguments": {"command": "echo hello"}} | in_session)
    return {
        "update_call": update["task"]["id"],
        "command_call": command["task"]["id"],
        "talking_session": session_workflow_id("local", TALKING_SESSION),
    }


def _read(answer: dict[str, Any]) -> dict[str, Any]:
    return {"tool": "get-dataset-items", "arguments": {"datasetId": answer["task"]["run"]["dataset_id"]}}


async def _cancelled(api: httpx.AsyncClient) -> str:
    task_id = await started(api, sleeper_call(60) | {"session_id": SESSION})
    async for event in events(api, task_id):
        if event.name == "run_started":
            await api.post(f"/v1/tasks/{task_id}/cancel")
    assert (await result_of(api, task_id))["task"]["status"] == "cancelled"
    return task_id


async def _answered(api: httpx.AsyncClient, tool: str, arguments: dict[str, Any], content: dict[str, Any]) -> str:
    task = await waiting(api, {"tool": tool, "arguments": arguments})
    await taken(api, task, content)
    assert not (await result(api, task["id"]))["is_error"]
    return task["id"]


_OF_THE_MACHINE = ("identity", "stackTrace")


def _of_nobody(document: Any) -> Any:
    """The document without the names of the machine and process that recorded it, and without its stack traces."""
    if isinstance(document, list):
        return [_of_nobody(part) for part in document]
    if isinstance(document, dict):
        return {key: "recorded" if key in _OF_THE_MACHINE else _of_nobody(part) for key, part in document.items()}
    return document


def _folder() -> Path:
    """Reachable by commands, which are nobody's when this is root's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    return folder


async def main(kinds: Sequence[str]) -> None:
    """Start everything, record, write those of `kinds`, all when none is named."""
    folder = _folder()
    settings = {
        "OUTLAST_TOOLS_FROM": ",".join(TOOL_MODULES),
        "OUTLAST_WORKSPACE_DIR": str(folder / "workspaces"),
        "OUTLAST_ENABLE_BASH": "true",
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
    }
    with (
        running_temporal(folder) as temporal,
        running_sandbox(folder) as sandbox,
        running_provider(MODEL) as provider,
        running_service(folder, temporal.address, sandbox, **settings, **provider.environment) as service,
    ):
        client = await connect(service.temporal_address)
        async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=180) as api:
            workflows = await record(api, client)
        for name, workflow_id in workflows.items():
            if kinds and name not in kinds:
                continue
            history = await client.get_workflow_handle(workflow_id).fetch_history()
            document = json.loads(history.to_json())
            text = json.dumps({"workflow_id": workflow_id, "history": _of_nobody(document)}, indent=1)
            (UNRELEASED / f"{name}.json").write_text(text + "\n")
            sys.stdout.write(f"{name}: {len(history.events)} events\n")
    commands.main()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
