"""Arguments of `list_tabs`."""

from typing import Annotated, Literal

from pydantic import Field

from outlast.workflows.tools.common.list_tabs.patterns import TabPattern
from outlast.workflows.tools.common.list_tabs.tabs import TabMode, WindowId
from outlast.workflows.tools.framework.tool import Arguments

GroupBy = Literal["none", "window", "host", "mode"]
OrderBy = Literal["title", "url", "host", "windowId", "tabId", "mode", "loading"]

_SYNTAX = "Regular expression in RE2's syntax (no look-around, no back-references), case-insensitive"


class ListTabsArguments(Arguments):
    """Which tabs, and how they are shown. A tab has to fit everything that is given."""

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
        """Whether the tabs of incognito windows are asked for."""
        return self.mode == "incognito" or (self.mode is None and "mode" in (self.group_by, self.order_by))

    @property
    def window_ids(self) -> frozenset[int] | None:
        """The windows that are meant; None for all."""
        if self.window_id is None:
            return None
        return frozenset(self.window_id if isinstance(self.window_id, list) else (self.window_id,))
