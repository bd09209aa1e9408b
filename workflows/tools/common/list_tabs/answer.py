"""The answer of `list_tabs`, as data and in words. Pure."""

from collections.abc import Sequence

from pydantic import Field

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.answers.answer import Answer, answered
from outlast.workflows.tools.common.list_tabs.arguments import GroupBy
from outlast.workflows.tools.common.list_tabs.tab_selection import TabGroup
from outlast.workflows.tools.common.list_tabs.tabs import MAX_TABS, Tab, TabMode

NOTHING_FOUND = "No tabs found matching the criteria."
NO_TITLE = "(no title)"


class ListedTab(Answer):
    """One tab."""

    tab_id: str
    window_id: int | None = Field(default=None, description="Absent when nothing asked for windows.")
    title: str
    url: str
    host: str | None = Field(default=None, description="With the port, if unusual. Absent for URLs without a host.")
    mode: TabMode
    loading: bool | None = Field(default=None, description="Absent when nothing asked for it.")


class ListedGroup(Answer):
    """Tabs with something in common."""

    key: int | str | None = Field(default=None, description="Window, host or mode; absent when nothing is grouped.")
    size: int
    tabs: list[ListedTab]


class TabList(Answer):
    """The tabs that fit."""

    count: int
    group_by: GroupBy
    groups: list[ListedGroup]
    omitted: int = Field(default=0, description=f"Tabs that were not looked at: the browser has over {MAX_TABS}.")


def tab_list(groups: Sequence[TabGroup], group_by: GroupBy, *, omitted: int = 0) -> ToolResult:
    """The result that lists `groups`."""
    count = sum(len(group.tabs) for group in groups)
    listed = [
        ListedGroup(key=group.key, size=len(group.tabs), tabs=[_listed(tab) for tab in group.tabs]) for group in groups
    ]
    answer = TabList(count=count, group_by=group_by, groups=listed, omitted=omitted)
    left_out = f"\n{_tabs(omitted)} of the browser not looked at: it has more than {MAX_TABS}." if omitted else None
    return answered(answer, _worded(groups, group_by, count), left_out)


def _worded(groups: Sequence[TabGroup], group_by: GroupBy, count: int) -> str:
    """A header, the groups, and a bullet for each tab, in Markdown."""
    if not count:
        return NOTHING_FOUND
    in_groups = "" if group_by == "none" else f" in {len(groups)} group{'' if len(groups) == 1 else 's'} by {group_by}"
    return "\n\n".join([f"# Found {_tabs(count)}{in_groups}", *(_group(group, group_by) for group in groups)])


def _group(group: TabGroup, group_by: GroupBy) -> str:
    bullets = [f"- {_line(tab.title) or NO_TITLE}\n  {_line(tab.url)}" for tab in group.tabs]
    if group_by == "none":
        return "\n".join(bullets)
    name = f"Window {group.key}" if group_by == "window" else str(group.key)
    return "\n".join([f"## {name} ({_tabs(len(group.tabs))})", *bullets])


def _listed(tab: Tab) -> ListedTab:
    return ListedTab(
        tab_id=tab.id,
        window_id=tab.window_id or None,
        title=tab.title,
        url=tab.url,
        host=tab.host,
        mode=tab.mode,
        loading=tab.loading,
    )


def _tabs(count: int) -> str:
    return f"{count} tab" if count == 1 else f"{count} tabs"


def _line(text: str) -> str:
    """In one line: what a page calls itself must not look like a tab or a group of its own."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
