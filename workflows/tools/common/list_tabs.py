"""`list_tabs`: the tabs of the user's browser. The client lists all of them, the server selects and describes them.

RE2 evaluates patterns in time linear to the text. A time limit for a backtracking engine would have to kill threads,
and its result would depend on the load. Look-around and back-references are rejected when the arguments are checked."""

import asyncio
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, Protocol, Self, cast
from urllib.parse import urlsplit

import re2  # pyright: ignore[reportMissingTypeStubs]  # the package has no types
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered
from outlast.workflows.tools.framework.phases import ClientPhase, Reply, plain
from outlast.workflows.tools.framework.tool import Arguments, Category, reads, tool

MAX_TABS = 2_000
MAX_URL_CHARS = 1_000
MAX_TITLE_CHARS = 200
"""Together they keep an answer under the server's limit of 4 MiB."""
MAX_PROBLEM_CHARS = 500
_USUAL_PORTS = {"http": 80, "https": 443, "ftp": 21}
TabMode = Literal["normal", "incognito"]
WindowId = Annotated[int, Field(ge=0)]


class Tab(BaseModel):
    """One tab."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: str = Field(min_length=1, max_length=64, description="The browser's id of the tab.")
    window_id: WindowId = Field(
        default=0, alias="windowId", description="The browser's number of the window; 0 for none, or when not asked."
    )
    title: str = Field(max_length=MAX_TITLE_CHARS)
    url: str = Field(max_length=MAX_URL_CHARS)
    mode: TabMode
    loading: bool | None = Field(default=None, description="Null when it was not asked.")

    @property
    def host(self) -> str | None:
        """Host of a web address, with an unusual port; None for other URLs, such as `chrome://settings`."""
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError:
            return None
        if parts.scheme not in _USUAL_PORTS or not parts.hostname:
            return None
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return name if port in (None, _USUAL_PORTS[parts.scheme]) else f"{name}:{port}"

    @property
    def host_name(self) -> str | None:
        """Host without its port."""
        return None if self.host is None else urlsplit(self.url).hostname


class BrowserTabs(BaseModel):
    """The tabs of a browser in its order, or the reason why it cannot list them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tabs: tuple[Tab, ...] = Field(max_length=MAX_TABS)
    omitted: int = Field(default=0, ge=0, description=f"Tabs beyond the first {MAX_TABS}.")
    problem: str | None = Field(
        default=None, min_length=1, max_length=MAX_PROBLEM_CHARS, description="Why there are no tabs to tell."
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.problem is not None and self.tabs:
            raise ValueError("an answer has tabs, or a problem")
        if len({tab.id for tab in self.tabs}) < len(self.tabs):
            raise ValueError("two tabs have the same id")
        return self


MAX_PATTERN_CHARS = 200
MAX_PROGRAM_SIZE = 1_500
"""Most instructions of RE2, each of which may read each character. `[a-z]{20}` has about 40, one `\\pL` a thousand."""
_MAX_MEMORY_BYTES = 1024 * 1024
_Re2Error = cast(type[Exception], re2.error)  # pyright: ignore[reportUnknownMemberType]


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, /) -> object | None:
        """Return a match anywhere in `text`, or None."""
        ...


class _Compiled(Pattern, Protocol):
    programsize: int


def compiled(pattern: str) -> Pattern:
    """Compile a case-insensitive pattern. Raises `ValueError` with the reason."""
    options = re2.Options()
    options.case_sensitive = False
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        found = cast(_Compiled, re2.compile(pattern, options))  # pyright: ignore[reportUnknownMemberType]
    except _Re2Error as error:
        raise ValueError(f"not a regular expression in RE2's syntax: {_error_text(error)}") from error
    if found.programsize > MAX_PROGRAM_SIZE:
        raise ValueError("too large a regular expression: use fewer or smaller repetitions such as {500}")
    return found


def _checked(pattern: str) -> str:
    compiled(pattern)
    return pattern


def _error_text(error: Exception) -> str:
    reason: object = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


TabPattern = Annotated[
    str,
    Field(min_length=1, max_length=MAX_PATTERN_CHARS, json_schema_extra={"format": "regex"}),
    AfterValidator(_checked),
]
"""A regular expression as an argument. An invalid one is rejected with the call's other violations."""
GroupBy = Literal["none", "window", "host", "mode"]
OrderBy = Literal["title", "url", "host", "windowId", "tabId", "mode", "loading"]
_SYNTAX = "Regular expression in RE2's syntax (no look-around, no back-references), case-insensitive"


class ListTabsArguments(Arguments):
    """Filters, all of which a tab has to match, and the presentation of the tabs."""

    pattern: TabPattern | None = Field(default=None, description=f"{_SYNTAX}; found anywhere in the URL or the title.")
    group_by: GroupBy = Field(default="none", alias="groupBy", description="What makes a group.")
    window_id: WindowId | Annotated[list[WindowId], Field(min_length=1, max_length=100)] | None = Field(
        default=None, alias="windowId", description="Only tabs of this window, or of these."
    )
    mode: TabMode | None = Field(
        default=None,
        description="Only tabs of normal, or of incognito windows. Without it incognito windows are left out, unless "
        "tabs are grouped or ordered by mode.",
    )
    loading: bool | None = Field(default=None, description="Only tabs that are loading (true), or are not (false).")
    host_filter: TabPattern | None = Field(
        default=None,
        alias="hostFilter",
        description=f"{_SYNTAX}; found in the URL's host, with or without its port. Other URLs never fit.",
    )
    order_by: OrderBy | None = Field(
        default=None, alias="orderBy", description="Order within groups; without it, as the browser tells them."
    )

    @property
    def wants_incognito(self) -> bool:
        """True if tabs of incognito windows are included."""
        return self.mode == "incognito" or (self.mode is None and "mode" in (self.group_by, self.order_by))

    @property
    def window_ids(self) -> frozenset[int] | None:
        """Selected windows; None for all."""
        if self.window_id is None:
            return None
        return frozenset(self.window_id if isinstance(self.window_id, list) else (self.window_id,))


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
    """The selected tabs."""

    count: int
    group_by: GroupBy
    groups: list[ListedGroup]
    omitted: int = Field(default=0, description=f"Tabs that were not looked at: the browser has over {MAX_TABS}.")


PHASE = "collect_tabs"
_DEADLINE = timedelta(days=1)
_MATCHING_TIME = timedelta(minutes=1)


@plain(timeout=_MATCHING_TIME, attempts=2)
async def list_tabs(arguments: ListTabsArguments, reply: Reply[BrowserTabs]) -> ToolResult:
    """Select and describe tabs that the client listed. Raises `ToolFailure` if it could not list them."""
    if reply.answer.problem is not None:
        raise ToolFailure(_no_tabs(reply.answer.problem))
    # A pattern may take seconds for thousands of tabs, and must not block the worker.
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
    .annotate(reads("List browser tabs", open_world=True))
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
NO_HOST = "(no host)"
MODES = ("normal", "incognito")


@dataclass(frozen=True)
class TabGroup:
    """Tabs with the same `key`: a window's number, a host, a mode; None without grouping."""

    key: int | str | None
    tabs: tuple[Tab, ...]


def chosen(tabs: Iterable[Tab], arguments: ListTabsArguments) -> tuple[TabGroup, ...]:
    """Return the selected tabs in groups, none of which is empty."""
    groups: dict[Any, list[Tab]] = {}
    for tab in matching(tabs, arguments):
        groups.setdefault(_KEYS[arguments.group_by](tab), []).append(tab)
    return tuple(TabGroup(key, ordered(groups[key], arguments.order_by)) for key in sorted(groups, key=_rank_of_group))


def matching(tabs: Iterable[Tab], arguments: ListTabsArguments) -> tuple[Tab, ...]:
    """Return the tabs that match all filters, in the given order."""
    tests = tuple(_tests(arguments))
    return tuple(tab for tab in tabs if all(test(tab) for test in tests))


def ordered(tabs: Iterable[Tab], order_by: OrderBy | None) -> tuple[Tab, ...]:
    """Return the tabs in this order, which is stable."""
    return tuple(tabs) if order_by is None else tuple(sorted(tabs, key=_RANKS[order_by]))


def _tests(arguments: ListTabsArguments) -> Iterable[Callable[[Tab], bool]]:
    if (windows := arguments.window_ids) is not None:
        yield lambda tab: tab.window_id in windows
    if not arguments.wants_incognito:
        yield lambda tab: tab.mode == "normal"
    if arguments.mode is not None:
        yield lambda tab: tab.mode == arguments.mode
    if arguments.loading is not None:
        yield lambda tab: tab.loading is arguments.loading
    if arguments.host_filter is not None:
        host = compiled(arguments.host_filter)
        yield lambda tab: any(name and host.search(name) is not None for name in (tab.host, tab.host_name))
    if arguments.pattern is not None:
        anywhere = compiled(arguments.pattern)
        yield lambda tab: any(anywhere.search(text) is not None for text in (tab.url, tab.title))


def _rank_of_group(key: int | str | None) -> tuple[Any, ...]:
    """Rank windows by number, normal before incognito, hosts by name and port, and tabs without a host last."""
    if key in MODES:
        return (0, MODES.index(str(key)))
    if key == NO_HOST:
        return (1,)
    return (0, *_rank_of_host(key)) if isinstance(key, str) else (0, key or 0)


def _rank_of_host(host: str) -> tuple[str, int]:
    """Rank by name, then by the number of the port."""
    name, _, port = host.rpartition(":")
    return (name, int(port)) if port.isdigit() else (host, 0)


def _plain(text: str) -> str:
    """Normalise case and accents for sorting."""
    return unicodedata.normalize("NFKC", text).casefold()


def _host(tab: Tab) -> str:
    return tab.host or NO_HOST


_KEYS: Mapping[GroupBy, Callable[[Tab], int | str | None]] = {
    "none": lambda _tab: None,
    "window": lambda tab: tab.window_id,
    "host": _host,
    "mode": lambda tab: tab.mode,
}
_RANKS: Mapping[OrderBy, Callable[[Tab], Any]] = {
    "title": lambda tab: _plain(tab.title),
    "url": lambda tab: _plain(tab.url),
    "host": lambda tab: (tab.host is None, *_rank_of_host(tab.host or "")),
    "windowId": lambda tab: tab.window_id,
    "tabId": lambda tab: tab.id,
    "mode": lambda tab: MODES.index(tab.mode),
    "loading": lambda tab: not tab.loading,
}
NOTHING_FOUND = "No tabs found matching the criteria."
NO_TITLE = "(no title)"


def tab_list(groups: Sequence[TabGroup], group_by: GroupBy, *, omitted: int = 0) -> ToolResult:
    """Return the result that lists `groups`."""
    count = sum(len(group.tabs) for group in groups)
    listed = [
        ListedGroup(key=group.key, size=len(group.tabs), tabs=[_listed(tab) for tab in group.tabs]) for group in groups
    ]
    answer = TabList(count=count, group_by=group_by, groups=listed, omitted=omitted)
    left_out = f"\n{_tabs(omitted)} of the browser not looked at: it has more than {MAX_TABS}." if omitted else None
    return answered(answer, _worded(groups, group_by, count), left_out)


def _worded(groups: Sequence[TabGroup], group_by: GroupBy, count: int) -> str:
    """Return a header, the groups, and a bullet for each tab, in Markdown."""
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
    fields = tab.model_dump(exclude={"id", "window_id"})
    return ListedTab(tab_id=tab.id, window_id=tab.window_id or None, host=tab.host, **fields)


def _tabs(count: int) -> str:
    return f"{count} tab" if count == 1 else f"{count} tabs"


def _line(text: str) -> str:
    """Return the text in one line, so that a title cannot look like another tab or group."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
