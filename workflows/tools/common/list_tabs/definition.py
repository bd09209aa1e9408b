"""The tool `list_tabs`."""

import asyncio
from datetime import timedelta

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.answers.answer import MAX_ANSWER_BYTES
from outlast.workflows.tools.common.list_tabs.answer import TabList, tab_list
from outlast.workflows.tools.common.list_tabs.arguments import ListTabsArguments
from outlast.workflows.tools.common.list_tabs.tab_selection import chosen
from outlast.workflows.tools.common.list_tabs.tabs import BrowserTabs
from outlast.workflows.tools.framework.phases import ClientPhase, Reply, plain
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations, tool

PHASE = "collect_tabs"
_DEADLINE = timedelta(days=1)
_MATCHING_TIME = timedelta(minutes=1)


@plain(timeout=_MATCHING_TIME, attempts=2)
async def list_tabs(arguments: ListTabsArguments, reply: Reply[BrowserTabs]) -> ToolResult:
    """Choose among the tabs that the client listed, and describe them. Raises `ToolFailure` when it listed none."""
    if reply.answer.problem is not None:
        raise ToolFailure(_no_tabs(reply.answer.problem))
    # A pattern may take seconds for thousands of tabs, in which the worker has others to look after.
    groups = await asyncio.to_thread(chosen, reply.answer.tabs, arguments)
    return tab_list(groups, arguments.group_by, omitted=reply.answer.omitted)


def _no_tabs(problem: str) -> ErrorEnvelope:
    return ErrorEnvelope.permanent(
        ErrorCategory.NETWORK,
        "list_tabs",
        f"The user's machine could not list the tabs: {problem}",
        hint="Tell the user what is wrong; call again when the user has fixed it.",
    )


LIST_TABS = (
    tool("list_tabs")
    .category(Category.EXPERIMENTAL)
    .describe(
        "Lists the tabs of the user's browser: title and URL of each, filtered, grouped and ordered as asked. Tabs of "
        "incognito windows are left out unless mode, or grouping or ordering by mode, asks for them. It runs on the "
        "user's machine and waits until the user's client answers; the user may decline."
    )
    .annotate(ToolAnnotations(title="List browser tabs", read_only=True, idempotent=True))
    .args(ListTabsArguments)
    .output(TabList)
    .output_threshold(MAX_ANSWER_BYTES)
    .stores_large_outputs()
    .authority("client")
    .client(
        ClientPhase(
            name=PHASE,
            message="The tabs of the user's browser are wanted: `outlast client`, run on the machine with the browser, "
            "answers this.",
            answer=BrowserTabs,
            parameters=ListTabsArguments,
            deadline=_DEADLINE,
            audience="program",
        )
    )
    .server(list_tabs)
    .build()
)
