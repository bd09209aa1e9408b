"""Tools that change while their calls are open: what a call has decided stays, and the rest is the new code's.

A call continues on the version of the tool that it was made with. If its tool is gone, the call waits, and says so.
"""

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from tests.support.calls.questions import answered, asks, result, taken, waiting
from tests.support.eventually import eventually
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import text_of
from tests.support.processes.terminal import outlast_command
from tests.support.stacks.outlast_up import RunningStack, running_stack

pytestmark = pytest.mark.slow

BEFORE = """
from outlast import ToolContext, tool

@tool(approval=lambda args: args.amount > 100)
def threshold(amount: int) -> str:
    return f"before {amount}"

@tool(approval=True, retries=1, timeout=30)
def removed_approval(amount: int) -> str:
    return f"before {amount}"

@tool(approval="Really?")
def new_argument(amount: int) -> str:
    return f"before {amount}"

@tool(approval=True)
def new_return_type(amount: int) -> int:
    return amount

async def first(amount: int) -> int:
    return amount

@tool
async def later_steps(amount: int, ctx: ToolContext) -> str:
    one = await ctx.step(first, amount)
    await ctx.approve("Continue?")
    return f"before {one}"

@tool
async def earlier_steps(amount: int, ctx: ToolContext) -> str:
    await ctx.step(first, amount)
    await ctx.approve("Continue?")
    return "before"
"""
AFTER = """
from outlast import ToolContext, tool

@tool(approval=lambda args: args.amount > 1_000_000)
def threshold(amount: int) -> str:
    return f"after {amount}"

@tool(retries=5, timeout=10)
async def removed_approval(amount: int) -> str:
    return f"after {amount}"

@tool(approval="Surely?")
def new_argument(amount: int, currency: str = "EUR") -> str:
    return f"after {amount} {currency}"

@tool(approval=True)
def new_return_type(amount: int) -> dict[str, int]:
    return {"after": amount}

async def first(amount: int) -> int:
    return amount

async def second(amount: int) -> int:
    return 2 * amount

@tool
async def later_steps(amount: int, ctx: ToolContext) -> str:
    one = await ctx.step(first, amount)
    await ctx.approve("Continue?")
    return f"after {await ctx.step(second, one)}"

@tool
async def earlier_steps(amount: int, ctx: ToolContext) -> str:
    await ctx.step(second, amount)
    await ctx.approve("Continue?")
    return "after"
"""
TOOLS = ("threshold", "removed_approval", "new_argument", "new_return_type", "later_steps", "earlier_steps")


def url_of(stack: RunningStack) -> str:
    assert stack.addresses.api_url
    return stack.addresses.api_url


async def wait_for_approvals(url: str) -> dict[str, dict[str, Any]]:
    async with api_client(url, timeout_seconds=60) as http:
        return {name: await waiting(http, {"tool": name, "arguments": {"amount": 500}}) for name in TOOLS}


async def approve(url: str, tasks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    async with api_client(url, timeout_seconds=60) as http:
        for name, task in tasks.items():
            assert (await asks(http, task["id"]))["input_requests"] == task["input_requests"]
            await taken(http, task, {"decision": "yes"})
            results[name] = await result(http, task["id"])
    return results


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The results of calls that waited for an approval while their tools changed, by tool."""
    folder = tmp_path_factory.mktemp("changed")
    module = folder / "changing_tools.py"
    module.write_text(BEFORE)
    with running_stack(folder / "data", "--tools-from", str(module)) as stack:
        tasks = asyncio.run(wait_for_approvals(url_of(stack)))
    module.write_text(AFTER)
    with running_stack(folder / "data", "--tools-from", str(module)) as stack:
        return asyncio.run(approve(url_of(stack), tasks))


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("threshold", "after 500"),
        ("removed_approval", "after 500"),
        ("new_argument", "after 500 EUR"),
        ("later_steps", "after 1000"),
    ],
)
def test_an_open_call_keeps_its_approval_and_runs_the_new_code(
    ended: dict[str, dict[str, Any]], tool: str, expected: str
) -> None:
    assert text_of(ended[tool]) == expected


def test_an_open_call_answers_in_the_new_return_type(ended: dict[str, dict[str, Any]]) -> None:
    assert ended["new_return_type"]["structured"] == {"after": 500}


def test_a_step_that_an_open_call_has_recorded_may_not_change(ended: dict[str, dict[str, Any]]) -> None:
    error = ended["earlier_steps"]["error"]
    assert error["category"] == "conflict"
    assert "it was 'first'" in error["message"]


VERSION_1 = """
from outlast import ToolContext, tool

@tool(approval=True)
def approved(city: str) -> int:
    return 1

@tool
async def asking(city: str, ctx: ToolContext) -> str:
    return f"first: {city} in {await ctx.ask('Which units?')}"

@tool
async def dropped(city: str, ctx: ToolContext) -> str:
    return f"{city}: {await ctx.ask('Dropped?')}"

@tool
async def removed(city: str, ctx: ToolContext) -> str:
    return f"{city}: {await ctx.ask('Removed?')}"

@tool
async def turned(city: str, ctx: ToolContext) -> str:
    return f"{city}: {await ctx.ask('Turned?')}"

@tool
async def ended(city: str, ctx: ToolContext) -> str:
    return f"{city}: {await ctx.ask('Ended?')}"
"""
VERSION_2 = """
from pydantic import BaseModel
from outlast import Category, ToolContext, tool

@tool(version=2, approval=True)
def approved(place: dict[str, str], days: int) -> str:
    return "second"

@approved.version(1)
def approved_1(city: str) -> int:
    return len(city)

@tool(version=2)
async def asking(place: str, ctx: ToolContext) -> str:
    return f"second: {place} in {await ctx.ask('Which units now?')}"

@asking.version(1)
async def asking_1(city: str, ctx: ToolContext) -> str:
    return f"first, kept: {city} in {await ctx.ask('Which units?')}"

@tool(version=2)
async def dropped(place: str, ctx: ToolContext) -> str:
    return "second"

class City(BaseModel):
    city: str

async def in_workflow(ctx, arguments):
    return arguments.city

TOOLS = [tool("turned").category(Category.DEV).describe("Turned.").args(City).server(in_workflow).build()]
"""
STUCK = {
    "dropped": "{module} has no version 1 of the tool `dropped`, only 2",
    "removed": "{module} no longer has the tool `removed`",
    "turned": "The tool `turned` of {module} was a function with a context and is now a workflow handler",
    "ended": "{module} no longer has the tool `ended`",
}
WAITS = ". The call waits, and continues when the tool fits again; to end it, cancel the task."


class Changed:
    """Calls that were open while their tools changed."""

    def __init__(self) -> None:
        self.module = ""
        self.results: dict[str, dict[str, Any]] = {}
        self.statuses: dict[str, str] = {}
        self.refusals: dict[str, dict[str, Any]] = {}
        self.doctor = ""
        self.cancelled: dict[str, Any] = {}


async def open_calls(url: str) -> dict[str, dict[str, Any]]:
    async with api_client(url, timeout_seconds=60) as http:
        names = ("approved", "asking", *STUCK)
        return {name: await waiting(http, {"tool": name, "arguments": {"city": "Oslo"}}) for name in names}


async def look_at(changed: Changed, stack: RunningStack, tasks: dict[str, dict[str, Any]]) -> None:
    """Continue what fits, and see what is shown of the others. One of them is cancelled."""
    async with api_client(url_of(stack), timeout_seconds=60) as http:
        await taken(http, tasks["approved"], {"decision": "yes"})
        await taken(http, tasks["asking"], {"answer": "kelvin"})
        for name in ("approved", "asking"):
            changed.results[name] = await result(http, tasks[name]["id"])
        new = await waiting(http, {"tool": "asking", "arguments": {"place": "Rome"}})
        await taken(http, new, {"answer": "kelvin"})
        changed.results["new"] = await result(http, new["id"])
        for name in STUCK:
            changed.statuses[name] = (await http.get(f"/v1/tasks/{tasks[name]['id']}")).json()["status_message"]
            response = await answered(http, tasks[name], {"answer": "yes"})
            changed.refusals[name] = {"status": response.status_code, **response.json()}

        async def seen_by_doctor() -> str | None:
            command = outlast_command("doctor", "--json")
            process = await asyncio.create_subprocess_exec(
                *command, env=stack.environment, stdout=asyncio.subprocess.PIPE
            )
            text = (await process.communicate())[0].decode()
            return text if all(f"`{name}`" in text for name in STUCK) else None

        changed.doctor = await eventually(seen_by_doctor, timeout_seconds=240, interval_seconds=3)
        ended = tasks["ended"]["id"]
        assert (await http.post(f"/v1/tasks/{ended}/cancel")).status_code == 202

        async def is_cancelled() -> dict[str, Any] | None:
            shown = (await http.get(f"/v1/tasks/{ended}")).json()
            return shown if shown["status"] == "cancelled" and shown.get("finished_at") else None

        changed.cancelled = await eventually(is_cancelled, timeout_seconds=240)


async def answer_taken(http: httpx.AsyncClient, task: dict[str, Any]) -> bool:
    """Answer the question of a task; False while Temporal has not repeated the step that had failed (503)."""
    response = await answered(http, task, {"answer": "yes"})
    assert response.status_code in (200, 503), response.text
    return response.status_code == 200


async def continue_all(changed: Changed, url: str, tasks: dict[str, dict[str, Any]]) -> None:
    async with api_client(url, timeout_seconds=120) as http:
        for name in ("dropped", "removed", "turned"):
            await eventually(partial(answer_taken, http, tasks[name]))
            changed.results[name] = await result(http, tasks[name]["id"])


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Changed:
    """Calls of a module that became version 2 and was restored afterwards."""
    folder, seen = tmp_path_factory.mktemp("versions"), Changed()
    module = folder / "versioned_tools.py"
    seen.module = str(module)
    module.write_text(VERSION_1)
    with running_stack(folder / "data", "--tools-from", str(module)) as stack:
        tasks = asyncio.run(open_calls(url_of(stack)))
    module.write_text(VERSION_2)
    with running_stack(folder / "data", "--tools-from", str(module)) as stack:
        asyncio.run(look_at(seen, stack, tasks))
    module.write_text(VERSION_1)
    with running_stack(folder / "data", "--tools-from", str(module)) as stack:
        asyncio.run(continue_all(seen, url_of(stack), tasks))
    return seen


def test_an_open_call_continues_on_the_version_that_it_was_made_with(changed: Changed) -> None:
    assert changed.results["approved"]["structured"] == {"result": 4}
    assert text_of(changed.results["asking"]) == "first, kept: Oslo in kelvin"


def test_new_calls_use_the_newest_version(changed: Changed) -> None:
    assert text_of(changed.results["new"]) == "second: Rome in kelvin"


@pytest.mark.parametrize("tool", STUCK)
def test_a_call_whose_tool_does_not_fit_names_the_change(changed: Changed, tool: str) -> None:
    text = STUCK[tool].format(module=changed.module)
    assert changed.statuses[tool] == text + WAITS
    assert changed.refusals[tool]["status"] == 409
    assert text in changed.refusals[tool]["detail"]
    assert text in changed.doctor


@pytest.mark.parametrize("tool", ["dropped", "removed", "turned"])
def test_a_call_continues_when_its_tool_is_restored(changed: Changed, tool: str) -> None:
    assert text_of(changed.results[tool]) == "Oslo: yes"


def test_a_call_whose_tool_is_gone_can_be_cancelled(changed: Changed) -> None:
    assert "no longer has the tool `ended`" in changed.cancelled["status_message"]
