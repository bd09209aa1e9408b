"""Schedules for a model: the four tools over MCP."""

from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN
from tests.support.stacks.service import Service

TOOLS = {"schedule-call", "list-call-schedules", "get-call-schedule", "change-call-schedule"}


def client(service: Service, revision: str = MODERN, mode: str = "default") -> Client:
    return Client(f"{service.api_url}/mcp?tools=call-schedules,storage&actors=&mode={mode}", mode=revision)


async def called(mcp: Client, name: str, *, fails: bool = False, **arguments: Any) -> tuple[dict[str, Any], str]:
    """The answer's structured content and its text."""
    result = await mcp.call_tool(name, arguments)
    said = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
    assert result.is_error is fails, said
    return result.structured_content or {}, said


@pytest.mark.parametrize(("revision", "mode"), [("legacy", "default"), (MODERN, "openai")])
async def test_a_model_has_a_tool_called_when_it_is_due(service: Service, revision: str, mode: str) -> None:
    name = f"of-a-model-{mode}"
    asked = {"scheduleId": name, "tool": "get-dataset-list", "arguments": {"limit": 1}, "cron": "17 2 29 2 *"}
    async with client(service, revision, mode) as mcp:
        assert {tool.name for tool in (await mcp.list_tools()).tools} >= TOOLS
        options = {"deadline_seconds": 600, "jitter_seconds": 5}
        made, text = await called(mcp, "schedule-call", timeZone="Europe/Prague", options=options, **asked)
        assert made["schedule"]["call"]["options"]["deadline_seconds"] == 600
        assert made["schedule"]["jitter_seconds"] == 5
        assert made["schedule"]["call"]["mode"] == mode
        assert "is due next at 20" in text
        await called(mcp, "change-call-schedule", scheduleId=name, change="trigger")

        async def completed() -> str:
            answer, text = await called(mcp, "get-call-schedule", scheduleId=name)
            assert [one.get("status") for one in answer["schedule"]["recent"]] == ["completed"], text
            return text

        assert "completed, task-" in await eventually(completed)
        _, text = await called(mcp, "change-call-schedule", scheduleId=name, change="pause")
        assert "is paused" in text
        paused, _ = await called(mcp, "get-call-schedule", scheduleId=name)
        assert not paused["schedule"].get("next")

        async def listed() -> bool:
            answer, _ = await called(mcp, "list-call-schedules")
            assert name in {one["id"] for one in answer["schedules"]}
            return True

        await eventually(listed)
        await called(mcp, "change-call-schedule", scheduleId=name, change="delete")
        _, text = await called(mcp, "get-call-schedule", scheduleId=name, fails=True)
        assert "You have no schedule" in text


async def test_options_of_the_calling_program_apply_to_scheduled_calls(service: Service) -> None:
    meta: Any = {"outlast/options": {"max_usd": 0.5}}
    asked: dict[str, Any] = {"scheduleId": "of-a-program", "cron": "17 2 29 2 *"}
    async with client(service) as mcp:
        made = await mcp.call_tool("schedule-call", {**asked, "tool": "get-dataset-list"}, meta=meta)
        await called(mcp, "change-call-schedule", scheduleId="of-a-program", change="delete")
        saved = await mcp.call_tool("schedule-call", {**asked, "savedCall": "nap"}, meta=meta)
    schedule = (made.structured_content or {})["schedule"]
    assert schedule["call"]["options"]["budget"]["max_total_charge_usd"] == "0.5"
    assert saved.is_error
    assert "A saved call has its own options" in str(saved.content)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tool": "call-actor", "cron": "@daily"}, "There is no tool 'call-actor' on this connection"),
        ({"tool": "schedule-call", "cron": "@daily"}, "schedule-call"),
        ({"tool": "get-dataset-list"}, "give `cron` or `every`"),
        ({"cron": "@daily"}, "give one of"),
        ({"tool": "get-dataset-list", "cron": "every day"}, "five fields"),
        ({"tool": "get-dataset-list", "everySecs": 5}, "everySecs"),
        ({"tool": "get-dataset-list", "cron": "@daily", "options": {"max_usdd": 1}}, "did you mean 'max_usd'?"),
        ({"savedCall": "nap", "cron": "@daily", "options": {"max_usd": 1}}, "leave out `max_usd`"),
        ({"tool": "get-dataset-list", "cron": "@daily", "options": {"until": {"rows": 0}}}, "until"),
        ({"tool": "get-dataset-list", "arguments": {"limit": -1}, "cron": "@daily"}, "limit"),
    ],
)
async def test_what_a_model_cannot_schedule_is_refused(service: Service, arguments: dict[str, Any], says: str) -> None:
    async with client(service) as mcp:
        _, text = await called(mcp, "schedule-call", fails=True, scheduleId="refused", **arguments)
        assert says in text
        assert "You have no schedule" in (await called(mcp, "get-call-schedule", fails=True, scheduleId="refused"))[1]
