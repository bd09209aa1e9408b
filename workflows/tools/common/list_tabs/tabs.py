"""What the client answers: the tabs of the browser, as they are. Also what that may not be."""

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_TABS = 2_000
MAX_URL_CHARS = 1_000
MAX_TITLE_CHARS = 200
"""Together they keep an answer under the 4 MiB that the server takes."""
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
        """The host of a web address, with its port unless that is the usual one; None for all other URLs.

        `chrome://settings` names a page of the browser and no host, although its syntax has one.
        """
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
        """The host without its port."""
        return None if self.host is None else urlsplit(self.url).hostname


class BrowserTabs(BaseModel):
    """The tabs of a browser as it lists them, or why it cannot list them."""

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
