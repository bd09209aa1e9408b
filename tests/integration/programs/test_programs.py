"""Programs: calls as tasks, answers in any order, errors as exceptions, approvals, and kills."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx

from outlast import AsyncClient
from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service
from tests.support.tools import program_tools

service = service_fixture(scope="module", tools=[program_tools.__name__], permissions=["*:forbidden=deny"])
api = http_fixture()
sandbox = sandbox_fixture()


def call(code: str, folder: Path, **more: Any) -> dict[str, Any]:
    return {"tool": "run-program", "arguments": {"code": code, "inputs": {"folder": str(folder)}, **more}}


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().splitlines()


async def error_of(api: httpx.AsyncClient, given: dict[str, Any]) -> dict[str, Any]:
    return (await completed(api, given))["result"]["error"]


async def test_a_program_returns_only_its_value(api: httpx.AsyncClient, tmp_path: Path) -> None:
    code = """
import asyncio
orders = await asyncio.gather(*(price_of(item=item, folder=folder) for item in ["a", "bb", "ccc"]))
{"total": sum(order["usd"] for order in orders), "first": orders[0]["item"]}
"""
    answer = await completed(api, call(code, tmp_path))
    assert answer["result"].get("structured") == {"total": 6.0, "first": "a"}, answer
    assert sorted(ran(tmp_path)) == ["price a", "price bb", "price ccc"]


async def test_each_call_is_a_task_of_the_program(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("await price_of(item='a', folder=folder)", tmp_path))
    await result_of(api, task_id)

    async def inner() -> dict[str, Any] | None:
        tasks = (await api.get("/v1/tasks", params={"tool": "price_of"})).json()["tasks"]
        return next((task for task in tasks if task["called_by"] == task_id), None)

    found = await eventually(inner)
    assert found["status"] == "completed"


async def test_an_answer_continues_its_own_branch_while_others_wait(api: httpx.AsyncClient, tmp_path: Path) -> None:
    code = """
import asyncio
async def slow():
    return await pay_for(item="slow", folder=folder)
async def quick():
    first = await price_of(item="one", folder=folder)
    second = await price_of(item="two", folder=folder)
    return [first["usd"], second["usd"]]
await asyncio.gather(slow(), quick())
"""
    task_id = await started(api, call(code, tmp_path))
    await eventually(lambda: (tmp_path / "ran").exists() and "price two" in ran(tmp_path))
    (tmp_path / "go").touch()
    answer = await result_of(api, task_id)
    assert answer["result"]["structured"] == {"result": ["paid slow", [3.0, 3.0]]}
    assert sorted(ran(tmp_path)) == ["pay slow", "price one", "price two"]


async def test_a_failed_call_is_an_exception_of_the_program(api: httpx.AsyncClient, tmp_path: Path) -> None:
    code = """
try:
    await refuse(folder=folder)
except RuntimeError as error:
    result = str(error)
{"caught": result}
"""
    answer = await completed(api, call(code, tmp_path))
    assert answer["result"]["structured"]["caught"].startswith("unknown: ")
    assert ran(tmp_path) == ["refuse"]
    error = await error_of(api, call("x = 1\nawait refuse(folder=folder)", tmp_path))
    assert "line 2" in error["message"]


async def test_errors_are_found_before_anything_runs(api: httpx.AsyncClient, tmp_path: Path) -> None:
    code = "await price_of(item='a', folder=folder)\nawait price_of(items='b', folder=folder)"
    error = await error_of(api, call(code, tmp_path))
    assert error["category"] == "validation"
    assert "program.py:2:" in error["message"]
    assert "`items`" in error["message"]
    assert not (tmp_path / "ran").exists()
    error = await error_of(api, call("await price_off(item='a')", tmp_path))
    assert "price_off" in error["message"]


async def test_a_program_calls_only_the_tools_that_it_was_given(api: httpx.AsyncClient, tmp_path: Path) -> None:
    error = await error_of(api, call("await price_of(item='a', folder=folder)", tmp_path, tools=["refuse"]))
    assert "price_of" in error["message"]
    assert not (tmp_path / "ran").exists()


async def test_a_program_learns_nothing_of_a_tool_that_is_denied(api: httpx.AsyncClient, tmp_path: Path) -> None:
    error = await error_of(api, call("await forbidden(wrong=1)", tmp_path))
    assert "forbidden" in error["message"]
    assert "hidden_parameter" not in error["message"]


async def test_hostile_programs_end(api: httpx.AsyncClient, tmp_path: Path) -> None:
    for code, words in {
        "while True: pass": "TimeoutError",
        "[0] * 10**10": "MemoryError",
        "def f(n): return f(n + 1)\nf(0)": "RecursionError",
        "open('/etc/passwd').read()": "",
        "import os\nos.environ": "",
        "import socket": "",
        "().__class__.__bases__": "",
        "(" * 5000: "",
    }.items():
        error = await error_of(api, call(code, tmp_path))
        assert words in error["message"], code


async def test_an_approval_of_a_call_is_asked_for(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("await delete_all(folder=folder)", tmp_path))

    async def inner() -> dict[str, Any] | None:
        tasks = (await api.get("/v1/tasks", params={"tool": "delete_all", "status": "input_required"})).json()["tasks"]
        return next((task for task in tasks if task["called_by"] == task_id), None)

    asking = await eventually(inner)
    await taken(api, await asks(api, asking["id"]), {"decision": "yes"})
    assert (await result_of(api, task_id))["result"]["content"][0]["text"] == "deleted"


async def test_questions_sleeps_and_approvals_of_the_program_itself(api: httpx.AsyncClient, tmp_path: Path) -> None:
    code = """
import asyncio
await asyncio.sleep(0.1)
name = await ask("Who?")
allowed = await approve(f"Greet {name}?", name=name)
[name, allowed]
"""
    task_id = await started(api, call(code, tmp_path))
    await taken(api, await asks(api, task_id), {"answer": "Ann"})
    await taken(api, await asks(api, task_id), {"decision": "no"})
    assert (await result_of(api, task_id))["result"]["structured"] == {"result": ["Ann", False]}


async def test_a_program_survives_the_death_of_its_worker_and_its_api(tmp_path: Path, sandbox: Sandbox) -> None:
    code = """
first = await price_of(item="one", folder=folder)
try:
    second = await pay_for(item="two", folder=folder)
except RuntimeError as error:
    second = str(error)
third = await price_of(item="three", folder=folder)
[first["usd"], second, third["usd"]]
"""
    with ChaosStack(tmp_path, sandbox, OUTLAST_TOOLS_FROM=program_tools.__name__) as stack:
        await stack.bring_up()
        async with httpx.AsyncClient(base_url=stack.api_url, trust_env=False, timeout=180) as api:
            task_id = await started(api, call(code, tmp_path))
            await eventually(lambda: (tmp_path / "ran").exists() and "pay two" in ran(tmp_path))
            stack.worker.kill()
            stack.api.kill()
            await stack.bring_up()
            first, second, third = (await result_of(api, task_id))["result"]["structured"]["result"]
    assert (first, third) == (3.0, 5.0)
    assert second.startswith("outcome_unknown: ")
    assert ran(tmp_path) == ["price one", "pay two", "price three"]


async def test_cancelling_a_program_cancels_its_calls(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("await pay_for(item='long', folder=folder)", tmp_path))
    await eventually((tmp_path / "ran").exists)
    assert (await api.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202
    (tmp_path / "go").touch()
    assert (await result_of(api, task_id))["task"]["status"] == "cancelled"


async def test_programs_have_a_route_a_client_method_a_command_and_an_mcp_selector(
    api: httpx.AsyncClient, service: Service, tmp_path: Path
) -> None:
    code, inputs = "(await price_of(item=item, folder=folder))['usd']", {"folder": str(tmp_path), "item": "abcd"}
    body = {"code": code, "inputs": inputs}
    routed = await api.post("/v1/programs", json=body, headers={"Prefer": "wait=60"})
    assert routed.json()["result"]["structured"] == {"result": 4.0}
    async with AsyncClient(service.api_url) as client:
        answer = await client.run(code, {**inputs}, tools=["price_*"])
        assert answer.result is not None
        assert answer.result.structured == {"result": 4.0}
    file = tmp_path / "program.py"
    file.write_text(code)
    command = Path(sys.executable).with_name("outlast")
    given = ["-a", f"folder={tmp_path}", "-a", "item=ab", "--json", "--url", service.api_url]
    process = await asyncio.create_subprocess_exec(command, "run", file, *given, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert json.loads(printed)["result"]["structured"] == {"result": 2.0}
    wire = Wire(api, MODERN, "?tools=programs")
    assert "run-program" in [tool["name"] for tool in (await wire.request("tools/list"))["tools"]]
