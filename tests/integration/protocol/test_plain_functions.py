"""Tools of plain async functions: no Temporal knowledge, and still retried, cancelled and survived."""

from pathlib import Path
from typing import Any

import httpx

from tests.support.calls.questions import call, result, result_of_call, said, taken, waiting
from tests.support.calls.tasks import events, started
from tests.support.eventually import eventually
from tests.support.stacks.service import Service

TWO_OF_THREE = {"done": 2, "total": 3, "message": "Two of three"}


async def test_text_models_and_dicts_become_answers(api: httpx.AsyncClient) -> None:
    assert said(await result_of_call(api, call("hello_world", name="Ann"))) == "Hello, Ann!"
    message = await result_of_call(api, call("say_message", text="hey"))
    assert message["structured"] == {"said": "hey", "letters": 3}
    assert said(message) == '{"said": "hey", "letters": 3}'


async def test_a_function_knows_its_call_and_says_how_far_it_is(api: httpx.AsyncClient, tmp_path: Path) -> None:
    body = {**call("watched", folder=str(tmp_path)), "session_id": "watching"}
    task_id = await started(api, body)
    told: list[dict[str, Any]] = []
    async for event in events(api, task_id):
        if event.name == "status_message" and event.data.get("done") is not None:
            told.append(event.data)
            assert (await api.get(f"/v1/tasks/{task_id}")).json()["progress"] == TWO_OF_THREE
            (tmp_path / "go").touch()
    assert told[0].items() >= {"done": 2, "total": 3, "status_message": "Two of three"}.items()
    known = {"task": task_id, "caller": "key:ann", "session": "watching", "attempt": 1}
    assert (await result(api, task_id))["structured"] == known


async def test_a_function_that_takes_the_reply_may_take_the_context_too(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("watched_reply"))
    await taken(api, task, {"confirmed": True})
    assert said(await result(api, task["id"])) == "True for key:ann"


async def test_what_may_pass_is_tried_again(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task = await waiting(api, call("shaky", folder=str(tmp_path)))
    await taken(api, task, {"decision": "yes"})
    assert said(await result(api, task["id"])) == "Worked at try 3"


async def test_an_expected_failure_is_the_answer(api: httpx.AsyncClient) -> None:
    failed = await result_of_call(api, call("refusing"))
    assert failed["error"].items() >= {"tool": "refusing", "category": "conflict", "retryable": False}.items()


async def test_a_defect_is_logged_and_tells_nothing(api: httpx.AsyncClient, service: Service) -> None:
    failed = await result_of_call(api, call("defective"))
    assert "The tool failed: its code raised an error." in failed["error"]["message"]
    assert "hunter2" not in str(failed)

    def logged() -> bool:
        lines = service.worker.log.read_text().splitlines()
        return any("a plain function has a defect" in line and '"tool": "defective"' in line for line in lines)

    await eventually(logged)
    assert "hunter2hunter2" not in service.worker.log.read_text()


async def test_cancelling_the_call_reaches_the_function(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("linger", folder=str(tmp_path), seconds=600))
    await eventually((tmp_path / "started").exists)
    assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202
    await api.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})
    assert (await api.get(f"/v1/tasks/{task_id}")).json()["status"] == "cancelled"
    assert (tmp_path / "cancelled").exists()


async def test_an_answer_that_breaks_its_own_schema_is_a_defect(api: httpx.AsyncClient, service: Service) -> None:
    failed = await result_of_call(api, call("broken_promise"))
    assert "The tool failed: its code raised an error." in failed["error"]["message"]
    assert failed["meta"] == {"outlast/defect": True}
    await eventually(lambda: "does not keep to its output schema" in service.worker.log.read_text())
