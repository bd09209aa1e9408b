"""Tools that change while their calls are open: what a call has decided stays, and the rest is the new code's."""

import asyncio
from typing import Any

import pytest

from tests.support.calls.questions import asks, result, taken, waiting
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import text_of
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
