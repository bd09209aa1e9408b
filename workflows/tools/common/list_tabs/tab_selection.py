"""Which tabs, in which groups, in which order. Pure."""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outlast.workflows.tools.common.list_tabs.arguments import GroupBy, ListTabsArguments, OrderBy
from outlast.workflows.tools.common.list_tabs.patterns import compiled
from outlast.workflows.tools.common.list_tabs.tabs import Tab

NO_HOST = "(no host)"
MODES = ("normal", "incognito")


@dataclass(frozen=True)
class TabGroup:
    """Tabs that have `key` in common: a window's number, a host, a mode; None when nothing groups them."""

    key: int | str | None
    tabs: tuple[Tab, ...]


def chosen(tabs: Iterable[Tab], arguments: ListTabsArguments) -> tuple[TabGroup, ...]:
    """The tabs that fit, in groups; no group is empty."""
    groups: dict[Any, list[Tab]] = {}
    for tab in matching(tabs, arguments):
        groups.setdefault(_KEYS[arguments.group_by](tab), []).append(tab)
    return tuple(TabGroup(key, ordered(groups[key], arguments.order_by)) for key in sorted(groups, key=_rank_of_group))


def matching(tabs: Iterable[Tab], arguments: ListTabsArguments) -> tuple[Tab, ...]:
    """The tabs that fit everything that was asked, in the order given."""
    tests = tuple(_tests(arguments))
    return tuple(tab for tab in tabs if all(test(tab) for test in tests))


def ordered(tabs: Iterable[Tab], order_by: OrderBy | None) -> tuple[Tab, ...]:
    """The tabs in this order; equals stay as they were."""
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
    """Windows by number, normal before incognito, hosts by name and port with those that have none at the end."""
    if key in MODES:
        return (0, MODES.index(str(key)))
    if key == NO_HOST:
        return (1,)
    return (0, *_rank_of_host(key)) if isinstance(key, str) else (0, key or 0)


def _rank_of_host(host: str) -> tuple[str, int]:
    """By name, then by the number of the port."""
    name, _, port = host.rpartition(":")
    return (name, int(port)) if port.isdigit() else (host, 0)


def _plain(text: str) -> str:
    """For sorting as people do: without regard to case and to how an accent is written."""
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
