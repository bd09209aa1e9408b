"""The tools that have calls started when they are due. They run without a workflow of their own."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import ValidationError

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.api.access.policy.contracts import Scope
from outlast.api.local_calls import LocalCall
from outlast.api.schedules.client import ScheduleClient
from outlast.contracts.options import ScheduleOptions, SharedOptions, options_of, to_wire
from outlast.contracts.schedules import SavedCallUse, Schedule, ScheduleRequest
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.common.call_schedule_tools import (
    CallScheduleArguments,
    ChangeCallScheduleArguments,
    ScheduleCallArguments,
)
from outlast.workflows.tools.framework.tool import NoArguments

SCHEDULE_TOOL_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    "schedule-call": ("call",),
    "list-call-schedules": ("read",),
    "get-call-schedule": ("read",),
    "change-call-schedule": ("call",),
}
"""For each tool, the scopes of which a key needs one."""
_SHOWN = 5
Handler = Callable[[LocalCall, Any], Awaitable[ToolResult]]


class ScheduleTools:
    """Runs the tools of schedules for a caller, who sees only its own."""

    def __init__(self, schedules: ScheduleClient) -> None:
        self._schedules = schedules
        self.handlers: dict[str, Handler] = {
            "schedule-call": self._create,
            "list-call-schedules": self._list,
            "get-call-schedule": self._get,
            "change-call-schedule": self._change,
        }

    async def _create(self, call: LocalCall, asked: ScheduleCallArguments) -> ToolResult:
        if asked.tool is not None:
            call.check_offered(asked.tool, besides=SCHEDULE_TOOL_SCOPES)
        schedule = await self._schedules.create(call.principal.caller, _request(call, asked))
        return _state(schedule, "get-call-schedule tells what came of its calls; change-call-schedule pauses it.")

    async def _list(self, call: LocalCall, _asked: NoArguments) -> ToolResult:
        page = await self._schedules.list(call.principal.caller)
        lines = [_line(schedule) for schedule in page.schedules] or ["You have no schedules of calls."]
        structured: JsonObject = {"schedules": [_document(schedule) for schedule in page.schedules]}
        return _text(lines, structured)

    async def _get(self, call: LocalCall, asked: CallScheduleArguments) -> ToolResult:
        return _state(await self._schedules.get(call.principal.caller, asked.schedule_id))

    async def _change(self, call: LocalCall, asked: ChangeCallScheduleArguments) -> ToolResult:
        caller, schedule_id = call.principal.caller, asked.schedule_id
        if asked.change == "delete":
            call.principal.require("cancel")
            await self._schedules.delete(caller, schedule_id)
            return _text([f"{schedule_id} is deleted. What it has started goes on."], {"deleted": schedule_id})
        if asked.change == "trigger":
            return _state(await self._schedules.trigger(caller, schedule_id), "It is due now.")
        change = self._schedules.pause if asked.change == "pause" else self._schedules.resume
        return _state(await change(caller, schedule_id, None))


def _request(call: LocalCall, asked: ScheduleCallArguments) -> ScheduleRequest:
    """Raises `ToolError` for what the API refuses."""
    mask = dict(call.mask) if call.mask is not None else None
    of_call = {name: value for name, value in asked.options.items() if name in options_of(SharedOptions)}
    of_schedule = {name: value for name, value in asked.options.items() if name not in of_call}
    if asked.saved_call is not None and of_call:
        message = f"A saved call has its own options: leave out {', '.join(f'`{name}`' for name in of_call)}."
        raise ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, call.definition.name, message))
    if asked.saved_call is not None and call.options:
        message = f"A saved call has its own options: the program that calls must not set {', '.join(call.options)}."
        raise ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, call.definition.name, message))
    saved = SavedCallUse(name=asked.saved_call, arguments=asked.arguments) if asked.saved_call is not None else None
    called: dict[str, Any] | None = None
    if asked.tool is not None:
        called = {"tool": asked.tool, "arguments": asked.arguments, "mode": call.mode, "tool_mask": mask}
        called |= call.with_options(to_wire(SharedOptions, of_call))
    every = [{"seconds": asked.every_secs}] if asked.every_secs is not None else []
    try:
        return ScheduleRequest.model_validate(
            {
                "id": asked.schedule_id,
                "call": called,
                "saved": saved,
                "cron": [asked.cron] if asked.cron is not None else [],
                "every": every,
                "time_zone": asked.time_zone,
                "overlap": asked.overlap,
                "budget_usd": asked.budget_usd,
                "note": asked.note,
                **to_wire(ScheduleOptions, of_schedule),
            }
        )
    except ValidationError as error:
        found = tuple(Violation.at(one["loc"], one["msg"]) for one in error.errors(include_url=False))
        message = f"The schedule does not fit: {found[0].message}"
        raise ToolError(
            ErrorEnvelope.permanent(ErrorCategory.VALIDATION, call.definition.name, message, violations=found)
        ) from error


def _line(schedule: Schedule) -> str:
    times = ", ".join([*schedule.cron, *(f"every {interval.seconds} s" for interval in schedule.every)])
    state = "is not due any more"
    if schedule.paused:
        state = "is paused"
    elif schedule.next:
        state = f"is due next at {schedule.next[0]:%Y-%m-%d %H:%M:%S} UTC"
    return f"{schedule.id} calls {schedule.tool} ({times}, {schedule.time_zone}) and {state}."


def _state(schedule: Schedule, next_step: str | None = None) -> ToolResult:
    lines = [_line(schedule)]
    if schedule.paused_because:
        lines.append(f"Paused: {schedule.paused_because}")
    for firing in schedule.recent[:_SHOWN]:
        started = firing.task_id or firing.batch_id or "nothing"
        error = f" {firing.error.message}" if firing.error else ""
        status = firing.status or "not known any more"
        lines.append(f"- due {firing.scheduled_at:%Y-%m-%d %H:%M:%S} UTC: {status}, {started}.{error}")
    return _text([*lines, *([next_step] if next_step else [])], {"schedule": _document(schedule)})


def _document(schedule: Schedule) -> JsonObject:
    return schedule.model_dump(mode="json", exclude_none=True)


def _text(lines: list[str], structured: JsonObject) -> ToolResult:
    return ToolResult(content=(TextContent(text="\n".join(lines)),), structured=structured)
