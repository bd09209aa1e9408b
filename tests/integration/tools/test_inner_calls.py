"""Calls that a tool's function makes of other tools: tasks of the same caller, under the same rules."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, result_of, started
from tests.support.calls.turns import named, new_session, streamed
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import text_of
from tests.support.providers.script import Call, by_position, says
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.fixtures import http_fixture, service_fixture

provider = provider_fixture(scope="module")
service = service_fixture(
    scope="module",
    settings_from="settings",
    tools=["tests.support.tools.step_tools", "tests.support.tools.calling_tools"],
    permissions=["*:purchase=deny", "*:slow_pay=ask", "*:outlast--big-table=deny"],
)
api = http_fixture()


@pytest.fixture(scope="module")
def settings(provider: ProviderServer) -> dict[str, str]:
    return provider.environment


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().splitlines() if (folder / "ran").exists() else []


async def tasks_of(api: httpx.AsyncClient, task_id: str) -> list[dict[str, Any]]:
    listed = (await api.get("/v1/tasks")).json()["tasks"]
    return [one for one in listed if one.get("called_by") == task_id]


async def inner_task(api: httpx.AsyncClient, task_id: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        return next(iter(await tasks_of(api, task_id)), None)

    return await eventually(found)


async def test_a_called_function_returns_its_type_once(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("order_of_payment", folder=str(tmp_path)))
    assert text_of((await result_of(api, task_id))["result"]) == "Paid 30: pay."
    assert ran(tmp_path) == ["reserve", "pay", "ship"]
    inner = await inner_task(api, task_id)
    assert (inner["tool"], inner["status"], inner["called_by"]) == ("pay", "completed", task_id)


async def test_a_blocking_function_calls_tools(api: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await completed(api, call("blocking_order_of_payment", folder=str(tmp_path)))
    assert text_of(answer["result"]) == "Paid 5."


async def test_calls_are_made_at_the_same_time(api: httpx.AsyncClient, tmp_path: Path) -> None:
    answer = await completed(api, call("two_payments", folder=str(tmp_path)))
    assert answer["result"]["structured"] == {"result": 3}
    assert ran(tmp_path) == ["pay", "pay"]


async def test_a_failed_call_is_the_answer_of_the_function(api: httpx.AsyncClient, tmp_path: Path) -> None:
    error = (await completed(api, call("order_of_payment", folder=str(tmp_path), amount=5000)))["result"]["error"]
    assert (error["category"], error["message"], error["hint"]) == ("conflict", "That is too much.", "Pay less.")
    assert ran(tmp_path) == ["reserve"]


@pytest.mark.parametrize(
    ("name", "arguments", "category", "words"),
    [
        ("purchase", {"folder": "."}, "permission", "permissions deny it"),
        ("call-actor", {"actor": "outlast/big-table", "input": {}}, "permission", "permissions deny it"),
        ("call-actor", {"actor": "BIGTABLEID1234567", "input": {}}, "validation", "not the full name"),
        ("pay", {"folder": ".", "amount": "much"}, "validation", "schema: /amount: "),
        ("pay", {"folder": ".", "amount": 1, "more": 2}, "validation", "'more' was unexpected"),
        ("no-such-tool", {}, "not_found", "no tool 'no-such-tool'"),
        ("outlast--big-table", {}, "not_found", "no tool"),
        ("bash", {"command": "ls"}, "not_found", "no tool"),
        ("add-actor", {"actor": "outlast/big-table"}, "validation", "connection"),
    ],
)  # fmt: skip
async def test_a_call_passes_the_rules_of_its_caller(
    api: httpx.AsyncClient, name: str, arguments: dict[str, Any], category: str, words: str
) -> None:
    answer = await completed(api, call("call_named", name=name, arguments=arguments))
    assert answer["result"]["structured"]["category"] == category
    assert words in answer["result"]["structured"]["message"]


async def test_wrong_arguments_of_a_call_are_named_in_error_and_status(api: httpx.AsyncClient) -> None:
    task_id = await started(api, call("forward", name="pay", arguments={"folder": ".", "amount": "much"}))
    error = (await result_of(api, task_id))["result"]["error"]
    status = (await api.get(f"/v1/tasks/{task_id}")).json()["status_message"]
    assert status == error["message"]
    assert error["message"].startswith("The arguments of pay do not fit its schema: /amount: ")
    assert "forward" in error["hint"]
    assert error["violations"] is None  # of another tool's arguments


async def test_a_misspelt_tool_is_answered_with_similar_names(api: httpx.AsyncClient) -> None:
    error = (await completed(api, call("forward", name="paid_ordr", arguments={})))["result"]["error"]
    assert error["hint"].startswith("Did you mean paid_order")


async def test_a_call_within_a_call_passes_them_too(api: httpx.AsyncClient) -> None:
    inner = {"name": "purchase", "arguments": {"folder": "."}}
    error = (await completed(api, call("forward", name="forward", arguments=inner)))["result"]["error"]
    assert error["category"] == "permission"


async def test_tools_that_a_model_calls_call_others_by_the_same_rules(
    api: httpx.AsyncClient, provider: ProviderServer, tmp_path: Path
) -> None:
    denied = {"name": "purchase", "arguments": {"folder": str(tmp_path)}}
    provider.script = by_position(
        says(Call("order_of_payment", {"folder": str(tmp_path)}), Call("call_named", denied)), says("Done.")
    )
    seen = [event async for event in streamed(api, await new_session(api), "Order.")]
    previews = {result["tool"]: result["preview"] for result in named(seen, "tool-result")}
    assert previews["order_of_payment"] == "Paid 30: pay."
    assert "permissions deny it" in previews["call_named"]
    assert ran(tmp_path) == ["reserve", "pay", "ship"]


async def test_an_approval_of_a_called_tool_is_awaited(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("forward", name="give_back", arguments={"folder": str(tmp_path)}))
    inner = await inner_task(api, task_id)
    waiting = await asks(api, inner["id"])

    async def is_shown() -> bool:
        return inner["id"] in ((await api.get(f"/v1/tasks/{task_id}")).json()["status_message"] or "")

    await eventually(is_shown)
    assert ran(tmp_path) == []
    await taken(api, waiting, {"decision": "yes"})
    assert text_of((await result_of(api, task_id))["result"]) == "give_back"


async def test_an_operators_approval_rule_applies_to_a_call(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("slow_order", folder=str(tmp_path)))
    inner = await inner_task(api, task_id)
    await taken(api, await asks(api, inner["id"]), {"decision": "no"})
    assert (await result_of(api, task_id))["result"]["error"]["category"] == "permission"
    assert ran(tmp_path) == ["reserve"]


async def test_cancelling_the_caller_cancels_the_call(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("forward", name="give_back", arguments={"folder": str(tmp_path)}))
    inner = await inner_task(api, task_id)
    await asks(api, inner["id"])
    await api.post(f"/v1/tasks/{task_id}/cancel")

    async def are_cancelled() -> bool:
        both = [(await api.get(f"/v1/tasks/{one}")).json()["status"] for one in (task_id, inner["id"])]
        return both == ["cancelled", "cancelled"]

    await eventually(are_cancelled)


async def test_cancelling_the_caller_cancels_all_its_calls(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("two_refunds", folder=str(tmp_path)))

    async def both_ask() -> list[dict[str, Any]] | None:
        inner = await tasks_of(api, task_id)
        return inner if [one["status"] for one in inner] == ["input_required"] * 2 else None

    inner: list[dict[str, Any]] = await eventually(both_ask)
    await api.post(f"/v1/tasks/{task_id}/cancel")

    async def are_cancelled() -> bool:
        ids = [task_id, *(one["id"] for one in inner)]
        return {(await api.get(f"/v1/tasks/{one}")).json()["status"] for one in ids} == {"cancelled"}

    await eventually(are_cancelled)
    assert ran(tmp_path) == []


async def test_a_cancelled_call_is_an_error_of_the_function(api: httpx.AsyncClient, tmp_path: Path) -> None:
    task_id = await started(api, call("call_named", name="give_back", arguments={"folder": str(tmp_path)}))
    inner = await inner_task(api, task_id)
    await asks(api, inner["id"])
    cancelled = await api.post(f"/v1/tasks/{inner['id']}/cancel")
    assert cancelled.status_code == 202, cancelled.text
    structured = (await result_of(api, task_id))["result"]["structured"]
    assert (structured["category"], structured["task_id"]) == ("cancelled", inner["id"])


LONG_RUN: dict[str, Any] = {"name": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 600}}}


async def cancelled_after_spending(api: httpx.AsyncClient, task_id: str) -> str:
    """Cancel a task whose function has called an Actor, when its run has cost something. Gives that call's task."""
    inner = (await inner_task(api, task_id))["id"]

    async def has_spent() -> bool:
        return ((await api.get(f"/v1/tasks/{inner}")).json().get("cost_usd") or 0) > 0

    await eventually(has_spent)
    await api.post(f"/v1/tasks/{task_id}/cancel")
    return inner


async def cost_of(api: httpx.AsyncClient, task_id: str) -> float:
    return (await api.get(f"/v1/tasks/{task_id}")).json()["cost_usd"]


async def test_the_cost_of_a_cancelled_function_counts_for_its_caller(api: httpx.AsyncClient) -> None:
    task_id = await started(api, call("call_named", name="forward", arguments=LONG_RUN))
    inner = await cancelled_after_spending(api, (await inner_task(api, task_id))["id"])
    assert (await result_of(api, task_id))["result"]["structured"]["category"] == "cancelled"
    assert await cost_of(api, task_id) == await cost_of(api, inner) > 0


async def test_the_cost_of_a_cancelled_function_counts_for_its_turn(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("forward", LONG_RUN)), says("Somebody stopped it."))
    inner = ""
    seen: list[Any] = []
    async for event in streamed(api, await new_session(api), "Run."):
        seen.append(event)
        if event.name == "tool-call":
            inner = await cancelled_after_spending(api, event.data["task_id"])
    assert named(seen, "tool-result")[0]["error"]["category"] == "cancelled"
    assert named(seen, "finish")[0]["cost_usd"] == pytest.approx(await cost_of(api, inner))


async def test_a_call_without_money_left_starts_no_run_one_level_down(api: httpx.AsyncClient) -> None:
    request = call("call_named", name="forward", arguments=LONG_RUN)
    request["options"] = {"budget": {"max_total_charge_usd": 0.0001}}
    structured = (await completed(api, request))["result"]["structured"]
    assert (structured["category"], "call-actor was not called" in structured["message"]) == ("payment", True), (
        structured
    )


async def test_calls_within_each_other_have_a_limit(api: httpx.AsyncClient, tmp_path: Path) -> None:
    error = (await completed(api, call("deeper", folder=str(tmp_path))))["result"]["error"]
    assert error["category"] == "validation"
    assert "at most 5 calls" in error["message"]
    assert ran(tmp_path) == ["level"] * 6


async def test_a_call_spends_at_most_the_budget_of_its_caller(api: httpx.AsyncClient) -> None:
    arguments = {"name": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 0}}}
    request = {**call("call_named", **arguments), "options": {"budget": {"max_total_charge_usd": 0.5}}}
    task_id = await started(api, request)
    await result_of(api, task_id)
    inner = (await api.get(f"/v1/tasks/{(await inner_task(api, task_id))['id']}")).json()
    assert inner["run"]["options"]["maxTotalChargeUsd"] == 0.5
    assert (await api.get(f"/v1/tasks/{task_id}")).json()["cost_usd"] == inner["cost_usd"]
