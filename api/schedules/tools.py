"""The tools that schedule calls. They run without a workflow."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from outlast.activities.contracts import JsonObject, Violation
from outlast.api.access.policy.contracts import Scope
from outlast.api.local_calls import LocalCall
from outlast.api.schedules.client import ScheduleClient
from outlast.api.tasks.tools import Handler, document, invalid, text_result
from outlast.contracts.options import ScheduleOptions, SharedOptions, options_of, to_wire
from outlast.contracts.schedules import SavedCallUse, Schedule, ScheduleRequest
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.common import call_schedule_tools as arguments
from outlast.workflows.tools.framework.tool import NoArguments

SCHEDULE_TOOL_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    "schedule-call": ("call",),
    "list-call-schedules": ("read",),
    "get-call-schedule": ("read",),
    "change-call-schedule": ("call",),
}
"""The scopes of each tool. A key needs one of them."""
_SHOWN = 5


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

    async def _create(self, call: LocalCall, asked: arguments.ScheduleCallArguments) -> ToolResult:
        if asked.tool is not None:
            call.check_offered(asked.tool, besides=SCHEDULE_TOOL_SCOPES)
        schedule = await self._schedules.create(call.principal.caller, _request(call, asked))
        return _state(schedule, "get-call-schedule shows the results of its calls; change-call-schedule pauses it.")

    async def _list(self, call: LocalCall, _asked: NoArguments) -> ToolResult:
        page = await self._schedules.list(call.principal.caller)
        lines = [_line(schedule) for schedule in page.schedules] or ["You have no schedules of calls."]
        structured: JsonObject = {"schedules": [document(schedule) for schedule in page.schedules]}
        return text_result(lines, structured)

    async def _get(self, call: LocalCall, asked: arguments.CallScheduleArguments) -> ToolResult:
        return _state(await self._schedules.get(call.principal.caller, asked.schedule_id))

    async def _change(self, call: LocalCall, asked: arguments.ChangeCallScheduleArguments) -> ToolResult:
        caller, schedule_id = call.principal.caller, asked.schedule_id
        if asked.change == "delete":
            call.principal.require("cancel")
            await self._schedules.delete(caller, schedule_id)
            return text_result([f"{schedule_id} is deleted. Runs already started continue."], {"deleted": schedule_id})
        if asked.change == "trigger":
            return _state(await self._schedules.trigger(caller, schedule_id), "It is due now.")
        change = self._schedules.pause if asked.change == "pause" else self._schedules.resume
        return _state(await change(caller, schedule_id, None))


def _request(call: LocalCall, asked: arguments.ScheduleCallArguments) -> ScheduleRequest:
    """The request to the API. Raises `ToolError` for arguments that it refuses."""
    mask = dict(call.mask) if call.mask is not None else None
    of_call = {name: value for name, value in asked.options.items() if name in options_of(SharedOptions)}
    of_schedule = {name: value for name, value in asked.options.items() if name not in of_call}
    if asked.saved_call is not None and of_call:
        message = f"A saved call has its own options: leave out {', '.join(f'`{name}`' for name in of_call)}."
        raise invalid(call, message)
    if asked.saved_call is not None and call.options:
        message = f"A saved call has its own options: the calling program must not set {', '.join(call.options)}."
        raise invalid(call, message)
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
        raise invalid(call, f"The schedule is invalid: {found[0].message}", found) from error


def _line(schedule: Schedule) -> str:
    times = ", ".join([*schedule.cron, *(f"every {interval.seconds} s" for interval in schedule.every)])
    state = "is no longer due"
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
        status = firing.status or "no longer known"
        lines.append(f"- due {firing.scheduled_at:%Y-%m-%d %H:%M:%S} UTC: {status}, {started}.{error}")
    return text_result([*lines, *([next_step] if next_step else [])], {"schedule": document(schedule)})
