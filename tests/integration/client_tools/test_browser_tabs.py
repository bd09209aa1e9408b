"""The tabs of a real Chromium, over its DevTools protocol."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.client_tools import browser_tabs
from outlast.cli.client_tools.browser_tabs import answer_with_tabs
from outlast.workflows.tools.common import list_tabs
from outlast.workflows.tools.common.list_tabs import BrowserTabs, Tab
from tests.support.eventually import eventually
from tests.support.http.pages import serving_pages
from tests.support.ports import free_address
from tests.support.processes.chromium import RunningBrowser, endless_page, running_browser


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[RunningBrowser]:
    async with running_browser(tmp_path) as running:
        yield running


EVERYTHING = {"groupBy": "mode", "orderBy": "loading", "windowId": 0}


async def tabs_of(browser: RunningBrowser, **parameters: Any) -> dict[str, Tab]:
    """By title, checked as the server checks them; without parameters everything that can be told of all tabs."""
    answer = BrowserTabs.model_validate(await answer_with_tabs(browser.url, parameters or EVERYTHING))
    assert answer.problem is None
    return {tab.title: tab for tab in answer.tabs}


async def with_titles(browser: RunningBrowser, *titles: str) -> dict[str, Tab]:
    """The tabs, as soon as these are among them and none of these is loading but the endless one."""

    async def shown() -> dict[str, Tab] | None:
        found = await tabs_of(browser)
        ready = all(title in found and found[title].loading is (title == "Endless") for title in titles)
        return found if ready else None

    return await eventually(shown)


async def test_windows_tabs_and_incognito_are_told_apart(browser: RunningBrowser) -> None:
    with serving_pages() as site:
        one, two, three = (site.page(f"/{name}", f"<title>{name}</title>") for name in ("one", "two", "three"))
        await browser.open_tab(one, new_window=True)
        await browser.open_tab(two)
        await browser.open_tab(three, context=await browser.incognito())
        found = await with_titles(browser, "one", "two", "three")
        assert {title: tab.mode for title, tab in found.items() if title != "about:blank"} == {
            "one": "normal",
            "two": "normal",
            "three": "incognito",
        }
        assert (found["one"].url, found["one"].host_name) == (one, "127.0.0.1")
        assert found["one"].window_id == found["two"].window_id
        assert len({found[title].window_id for title in ("about:blank", "one", "three")}) == 3


async def test_incognito_windows_are_left_out_unless_they_are_asked_for(browser: RunningBrowser) -> None:
    await browser.open_tab("data:text/html,<title>secret</title>", context=await browser.incognito())
    await with_titles(browser, "secret")
    for parameters, titles in (
        ({"groupBy": "host"}, {"about:blank"}),
        ({"mode": "normal", "groupBy": "mode"}, {"about:blank"}),
        ({"mode": "incognito"}, {"secret"}),
        ({"orderBy": "mode"}, {"about:blank", "secret"}),
    ):
        assert set(await tabs_of(browser, **parameters)) == titles


@pytest.mark.parametrize(
    ("parameters", "methods"),
    [
        ({"pattern": "x", "groupBy": "host"}, set[str]()),
        ({"groupBy": "window"}, {"Browser.getWindowForTarget"}),
        ({"windowId": [1]}, {"Browser.getWindowForTarget"}),
        ({"orderBy": "windowId"}, {"Browser.getWindowForTarget"}),
        ({"loading": False}, {"Target.attachToTarget", "Runtime.evaluate", "Target.detachFromTarget"}),
        ({"orderBy": "loading"}, {"Target.attachToTarget", "Runtime.evaluate", "Target.detachFromTarget"}),
    ],
)
async def test_the_browser_is_asked_only_for_what_the_call_wants(
    browser: RunningBrowser, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], methods: set[str]
) -> None:
    """Return the methods that are called on the connection."""
    said: list[str] = []
    call = browser_tabs.DevTools.call

    async def heard(self: browser_tabs.DevTools, method: str, **params: Any) -> Any:
        said.append(method)
        return await call(self, method, **params)

    monkeypatch.setattr(browser_tabs.DevTools, "call", heard)
    # On a busy machine a page takes longer to say something than it is waited for.
    monkeypatch.setattr(browser_tabs, "STATE_SECONDS", 60)
    monkeypatch.setattr(browser_tabs, "ALL_STATES_SECONDS", 60)
    assert len(await tabs_of(browser, **parameters)) == 1
    assert set(said) == {"Target.getBrowserContexts", "Target.getTargets", *methods}


async def test_a_browser_started_incognito_says_so(tmp_path: Path) -> None:
    async with running_browser(tmp_path, "--incognito") as browser:
        assert [tab.mode for tab in (await tabs_of(browser)).values()] == ["incognito"]


async def test_a_page_that_never_ends_and_one_that_is_too_busy_are_loading(browser: RunningBrowser) -> None:
    with serving_pages() as site:
        async with endless_page() as endless:
            await browser.open_tab(endless)
            await browser.open_tab(site.page("/done", "<title>done</title>"))
            busy = await browser.open_tab(site.page("/busy", "<title>busy</title>"))
            found = await with_titles(browser, "Endless", "done", "busy")
            assert (found["Endless"].loading, found["done"].loading) == (True, False)
            await browser.navigate(busy, "while (true) {}")
            await eventually(lambda: _is_loading(browser, "busy"))


async def test_a_long_address_is_cut_and_marked(browser: RunningBrowser) -> None:
    await browser.open_tab("data:text/html,<title>long</title>" + "x" * 5_000)

    async def shown() -> Tab | None:
        answer = await answer_with_tabs(browser.url, {})
        return next((tab for tab in BrowserTabs.model_validate(answer).tabs if tab.url.startswith("data:")), None)

    url = (await eventually(shown)).url
    assert (len(url), url[-1]) == (browser_tabs.MAX_URL_CHARS, "…")


async def test_no_browser_is_a_problem_that_says_what_to_do() -> None:
    answer = await answer_with_tabs(free_address(), {})
    assert BrowserTabs.model_validate(answer).tabs == ()
    assert "--remote-debugging-port" in answer["problem"]


async def test_something_else_at_the_port_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_tabs, "CONNECT_SECONDS", 1)
    with serving_pages() as site:
        answers: list[dict[str, Any]] = []
        for body in ("<html>", "[]", "{}", f'{{"webSocketDebuggerUrl": "{site.url}/devtools/browser/x"}}'):
            site.page("/json/version", body)
            answers.append(await answer_with_tabs(site.url, {}))
    problems = [BrowserTabs.model_validate(answer).problem or "" for answer in answers]
    assert all("is not the debugging port of a browser" in problem for problem in problems[:3])
    assert "refuses the connection" in problems[3]


def test_client_and_server_agree_on_the_limits() -> None:
    names = ("MAX_TABS", "MAX_URL_CHARS", "MAX_TITLE_CHARS", "MAX_PROBLEM_CHARS")
    assert [getattr(browser_tabs, name) for name in names] == [getattr(list_tabs, name) for name in names]


async def _is_loading(browser: RunningBrowser, title: str) -> bool:
    return (await tabs_of(browser))[title].loading is True
