"""What the worker logs of a call: JSON lines that name task, tool, caller and session."""

import json
from typing import Any

import httpx

from tests.support.calls.questions import call, result, taken, waiting
from tests.support.calls.tasks import completed
from tests.support.eventually import eventually
from tests.support.stacks.service import Service


async def lines_of(service: Service, task_id: str, *events: str) -> list[dict[str, Any]]:
    """All that the logs of API and worker say of a task, in order, as soon as they say these events."""

    def found() -> list[dict[str, Any]]:
        logs = [process.log.read_text().splitlines() for process in (service.api, service.worker)]
        lines = [json.loads(line) for log in logs for line in log if line.startswith("{")]
        of_task = sorted((line for line in lines if line.get("task") == task_id), key=lambda line: line["timestamp"])
        assert set(events) <= {line["event"] for line in of_task}, of_task
        return of_task

    return await eventually(found)


async def test_every_event_of_a_call_is_one_line(service: Service, api: httpx.AsyncClient) -> None:
    done = await completed(api, {**call("hello_world", name="secret Ann"), "session_id": "logged"})
    lines = await lines_of(service, done["task"]["id"], "task accepted", "task ended")
    who = {"tool": "hello_world", "caller": "key:ann", "session": "logged", "task": done["task"]["id"]}
    assert [line for line in lines if line.items() >= who.items()] == lines
    assert sorted(line["task_event"] for line in lines) == ["accepted", "ended", "started"]
    (end,) = [line for line in lines if line["task_event"] == "ended"]
    assert (end["outcome"], end["seconds"] > 0) == ("completed", True)
    assert {line["level"] for line in lines} == {"info"}
    assert "secret Ann" not in json.dumps(lines)


async def test_an_approval_and_who_gave_it_are_logged(service: Service, api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("deploy", item="site"))
    await taken(api, task, {"decision": "no", "note": "Not on a Friday."})
    assert (await result(api, task["id"]))["is_error"]
    lines = await lines_of(service, task["id"], "approval answered", "task ended")
    (approval,) = [line for line in lines if line["event"] == "approval answered"]
    said = {"tool": "deploy", "caller": "key:ann", "granted": False, "answered_by": "key:ann"}
    assert approval.items() >= said.items()
    (end,) = [line for line in lines if line["event"] == "task ended"]
    assert end.items() >= {"outcome": "failed", "error": "permission"}.items()
    assert end["person_seconds"] <= end["seconds"]
    assert [line["task_event"] for line in lines if "task_event" in line].count("waiting") == 1


async def test_a_hand_off_is_logged_with_its_phase(service: Service, api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("order", item="tea"))
    lines = await lines_of(service, task["id"], "handed to the client")
    (handed,) = [line for line in lines if line["event"] == "handed to the client"]
    assert handed.items() >= {"tool": "order", "phase": "confirm"}.items()
    await taken(api, task, {"confirmed": True})
