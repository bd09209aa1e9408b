"""`get-schedule-list`: the caller's schedules."""

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES, answered
from outlast.workflows.tools.answers.wording import describe_list, next_list_hint
from outlast.workflows.tools.common.schedules.views import ScheduleView, schedule_view
from outlast.workflows.tools.core.platform_lists import NewestFirstArguments, entries_of, total_of
from outlast.workflows.tools.core.schedules import SCHEDULES
from outlast.workflows.tools.core.storages import ListPage, next_offset
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool


class ScheduleList(ListPage):
    """A page of schedules."""

    schedules: list[ScheduleView]


async def get_schedule_list(ctx: ToolContext, arguments: NewestFirstArguments) -> ToolResult:
    """Read the page, a schedule to a line."""
    offset = arguments.offset
    page = await ctx.platform.get(SCHEDULES, offset=offset, limit=arguments.limit, desc=arguments.desc)
    found = [schedule_view(entry) for entry in entries_of(page)]
    count, total = len(found), total_of(page)
    answer = ScheduleList(
        schedules=found,
        count=count,
        total=total,
        offset=offset,
        next_offset=next_offset(found, total=total, offset=offset),
    )
    return answered(
        answer,
        describe_list("schedules", count=count, total=total, offset=offset),
        *map(_line, found),
        next_list_hint("get-schedule-list", count=count, total=total, offset=offset),
    )


def _line(schedule: ScheduleView) -> str:
    due = f"next at {schedule.next_run_at:%Y-%m-%d %H:%M:%S} UTC" if schedule.next_run_at else "off"
    return f"- {schedule.schedule_id} ({schedule.name}): `{schedule.cron_expression}` {schedule.timezone}, {due}"


GET_SCHEDULE_LIST = (
    tool("get-schedule-list")
    .category(Category.SCHEDULES)
    .describe("List schedules of the authenticated user, newest first. Use it to find one and its id.")
    .annotate(ToolAnnotations(title="Get schedule list", read_only=True, idempotent=True, open_world=False))
    .args(NewestFirstArguments)
    .output(ScheduleList)
    .server(get_schedule_list)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
