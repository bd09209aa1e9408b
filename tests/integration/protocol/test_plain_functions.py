"""Tools of plain async functions: no Temporal knowledge, and still retried, cancelled and survived."""

from pathlib import Path

import httpx

from tests.support.calls.questions import call, result, result_of_call, said, taken, waiting
from tests.support.calls.tasks import started
from tests.support.eventually import eventually
from tests.support.stacks.service import Service


async def test_text_models_and_dicts_become_answers(api: httpx.AsyncClient) -> None:
    assert said(await result_of_call(api, call("hello_world", name="Ann"))) == "Hello, Ann!"
    message = await result_of_call(api, call("say_message", text="hey"))
    assert message["structured"] == {"said": "hey", "letters": 3}
    assert said(message) == '{"said": "hey", "letters": 3}'


async def test_what_may_pass_is_tried_again(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task = await waiting(api, call("shaky", folder=str(tmp_path)))
    await taken(api, task, {"decision": "yes"})
    assert said(await result(api, task["id"])) == "Worked at try 3"


async def test_an_expected_failure_is_the_answer(api: httpx.AsyncClient) -> None:
    failed = await result_of_call(api, call("refusing"))
    assert failed["error"].items() >= {"tool": "refusing", "category": "conflict", "retryable": False}.items()


async def test_a_defect_is_logged_and_tells_nothing(api: httpx.AsyncClient, service: Service) -> None:
    failed = await result_of_call(api, call("defective"))
    assert "The tool has a defect (KeyError)" in failed["error"]["message"]
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
    assert "The tool has a defect (InvalidOutput)" in failed["error"]["message"]
    assert failed["meta"] == {"outlast/defect": True}
    await eventually(lambda: "does not keep to its output schema" in service.worker.log.read_text())
