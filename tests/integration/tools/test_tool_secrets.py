"""A declared secret is found nowhere, whatever the tool does with it; a missing one fails the call before it runs."""

import json
from typing import Any

import httpx
import pytest

from outlast.cli.checks import components
from outlast.deploy.local.state import StackAddresses, StackState
from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, events, result_of, started
from tests.support.planted_secrets import histories, in_any_spelling
from tests.support.stacks.api_server import connect
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.stacks.service import Service
from tests.support.tools import leaking_tools
from tests.support.tools.leaking_tools import KEY, PEM, PLANTED


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("secrets") / "pem"
    file.write_text(f"{PEM}\n")
    return {"LEAK_KEY": KEY, "LEAK_PEM_FILE": str(file)}


service = service_fixture(
    scope="module", tools=[leaking_tools.__name__], settings_from="settings", database=True, callers={}
)
api = http_fixture()
ERRORS = ("failure", "retried", "class", "chained")


async def leaked_to_callers(api: httpx.AsyncClient) -> tuple[list[str], str]:
    """The ids of tasks that hand out secrets by every way, and all that their caller reads."""
    seen: list[Any] = []
    task_id = await started(api, {"tool": "leak"})
    task = await asks(api, task_id)
    seen.append(task)
    await taken(api, task, {"answer": "yes"})
    task = await asks(api, task_id)
    seen.append(task)
    await taken(api, task, {"decision": "yes"})
    seen.append(await result_of(api, task_id))
    assert seen[-1]["result"]["structured"]["answer"] == "yes", seen[-1]
    asking = await started(api, {"tool": "leak_by_question"})
    task = await asks(api, asking)
    seen.append(task)
    await taken(api, task, action="decline")
    seen.append(await result_of(api, asking))
    failed = [await completed(api, {"tool": "leak_by_error", "arguments": {"kind": kind}}) for kind in ERRORS]
    assert all(one["result"]["is_error"] for one in failed)
    task_ids = [task_id, asking, *(one["task"]["id"] for one in failed)]
    for one in task_ids:
        seen += [event.data async for event in events(api, one)]
        seen.append((await api.get(f"/v1/tasks/{one}")).json())
    return task_ids, json.dumps([*seen, *failed], default=str)


@pytest.mark.slow
async def test_a_secret_of_a_tool_is_found_nowhere(service: Service, api: httpx.AsyncClient) -> None:
    task_ids, seen = await leaked_to_callers(api)
    places = await histories(await connect(service.temporal_address))
    places["what callers read"] = seen.encode()
    for file in (*service.folder.glob("temporal.db*"), service.worker.log, service.api.log):
        places[file.name] = file.read_bytes()
    async with httpx.AsyncClient(trust_env=False, timeout=180) as http:
        places["metrics of the worker"] = (await http.get(service.worker_metrics_url)).content

    # What the search must find, or it has looked in the wrong places.
    assert all(f"history of {one}" in places for one in task_ids)
    for mark in (b"[secret LEAK_KEY]", b"[secret LEAK_PEM]"):
        for place in ("what callers read", f"history of {task_ids[0]}", "worker.log"):
            assert mark in places[place], (mark, place)
    for line in (b"The key is [secret", b"key [secret", b'"fields"', b"LookupError", b"never retrieved"):
        assert line in places["worker.log"], line
    found = [
        (place, content[max(0, content.index(spelling) - 80) :][:200])
        for place, content in places.items()
        for spelling in (*in_any_spelling(PLANTED), PLANTED[:9].encode())
        if spelling in content
    ]
    assert found == []


async def test_a_caller_learns_only_the_name_of_a_missing_secret(service: Service, api: httpx.AsyncClient) -> None:
    answer = await completed(api, {"tool": "needs_more"})
    error = answer["result"]["error"]
    assert error["message"] == "needs_more needs the secret ABSENT_KEY, which its worker does not have. It was not run."
    assert (error["category"], error["retryable"]) == ("authentication", False)
    log = service.worker.log.read_text()
    assert "Calls of needs_more will fail, because it needs the secret ABSENT_KEY" in log
    addresses = StackAddresses(metrics_url=service.worker_metrics_url)
    state = StackState(pid=1, started_at="", addresses=addresses, parts={}, ports={})
    check = await components.check_metrics(components.Surroundings(service.folder, state, {}))
    assert (check.health, check.finding) == ("warn", "the worker lacks secrets of its tools: ABSENT_KEY")


async def test_an_undeclared_secret_names_the_option(api: httpx.AsyncClient) -> None:
    error = (await completed(api, {"tool": "undeclared"}))["result"]["error"]
    assert "does not declare the secret 'LEAK_PEM': write @tool(secrets=['LEAK_PEM'])" in error["message"]
