"""`list_tabs` from the call to the browser and back, with `outlast client` in between."""

import subprocess
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from outlast.workflows.tools.common.list_tabs import MAX_TABS, MAX_TITLE_CHARS, MAX_URL_CHARS
from tests.integration.client_tools.conftest import BOB, StartClient
from tests.support.calls.questions import answered, asks, call, result, said, taken, waiting
from tests.support.calls.tasks import started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, text_of
from tests.support.http.pages import serving_pages
from tests.support.ports import free_address
from tests.support.processes.chromium import RunningBrowser
from tests.support.processes.forwarder import forwarding
from tests.support.processes.terminal import on_terminal, outlast_command
from tests.support.stacks.service import Service

TAB = {"id": "T", "windowId": 7, "title": "By hand", "url": "https://a.example/", "mode": "normal", "loading": False}
ONE_TAB = {"tabs": [TAB]}


async def handoffs(api: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    response = await api.get("/v1/handoffs", params=params)
    assert response.status_code == 200, response.text
    return response.json()["handoffs"]


async def one_handoff(api: httpx.AsyncClient, **params: Any) -> dict[str, Any]:
    """The only one that is open, as soon as it is seen."""

    async def seen() -> dict[str, Any] | None:
        found = await handoffs(api, **params)
        assert len(found) == 1
        return found[0]

    return await eventually(seen)


async def opened(browser: RunningBrowser, *addresses: str) -> None:
    """Open pages, and return when the browser shows their titles: the last parts of their paths."""
    for address in addresses:
        await browser.open_tab(address)
    wanted = {address.rpartition("/")[2] for address in addresses}

    async def shown() -> bool:
        return wanted <= await browser.titles()

    await eventually(shown)


async def test_a_rest_caller_gets_the_tabs_of_a_real_browser(
    api: httpx.AsyncClient, browser: RunningBrowser, start_client: StartClient
) -> None:
    client = start_client(browser.url)
    with serving_pages() as site:
        await opened(browser, *(site.page(f"/{name}", f"<title>{name}</title>") for name in ("beta", "alpha")))
        host = urlsplit(site.url).netloc
        done = await result(api, await started(api, call("list_tabs", groupBy="host", orderBy="title", mode="normal")))
    assert not done["is_error"], done
    lines = said(done).splitlines()
    assert lines[:3] == ["# Found 3 tabs in 2 groups by host", "", f"## {host} (2 tabs)"]
    assert [line for line in lines if line.startswith("- ")] == ["- alpha", "- beta", "- about:blank"]
    assert "## (no host) (1 tab)" in lines
    groups = [(group["key"], group["size"]) for group in done["structured"]["groups"]]
    assert groups == [(host, 2), ("(no host)", 1)]
    assert done["meta"]["outlast/client"] == {"phase": "collect_tabs", "answeredBy": "key:ann"}
    assert (await client.tells("answered"))["tool"] == "list_tabs"


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_an_mcp_caller_waits_for_the_client_and_is_not_asked_for_tabs(
    api: httpx.AsyncClient, browser: RunningBrowser, start_client: StartClient, revision: str
) -> None:
    start_client(browser.url)
    wire, capabilities = Wire(api, revision), {"elicitation": {}}
    if revision == LEGACY:
        await wire.initialize(capabilities)
    call = {"name": "list_tabs", "arguments": {"pattern": "^no such"}}
    done = await wire.request("tools/call", call, capabilities=capabilities)
    assert text_of(done) == "No tabs found matching the criteria."
    assert done["structuredContent"]["count"] == 0


async def test_an_invalid_regular_expression_is_refused_before_anybody_is_asked(api: httpx.AsyncClient) -> None:
    refused = await api.post("/v1/tasks", json=call("list_tabs", pattern="(", hostFilter="(?=a)"))
    assert refused.status_code == 422
    assert {violation["path"] for violation in refused.json()["error"]["violations"]} == {"/pattern", "/hostFilter"}
    assert await handoffs(api) == []


async def test_without_a_client_the_task_waits_and_says_what_is_missing(
    api: httpx.AsyncClient, bob: httpx.AsyncClient
) -> None:
    task = await waiting(api, call("list_tabs"))
    assert "`outlast client`" in task["input_requests"]["collect_tabs"]["message"]
    handoff = await one_handoff(api, tool="list_tabs")
    assert handoff.items() >= {"task_id": task["id"], "key": "collect_tabs", "tool": "list_tabs"}.items()
    assert "`outlast client`" in handoff["message"]
    assert handoff["answer_schema"]["required"] == ["tabs"]
    assert await handoffs(api, tool="hello_world") == []
    assert await handoffs(bob) == []
    wire = Wire(api, LEGACY)
    await wire.initialize({})
    working = await wire.request("tools/call", {"name": "list_tabs", "arguments": {"waitSecs": 0.2}})
    assert "outlast client" in text_of(working)
    invented = {"taskId": task["id"], "key": "collect_tabs", "content": ONE_TAB}
    refused = await wire.request("tools/call", {"name": "answer-task", "arguments": invented})
    assert refused["isError"]
    assert "Only the user's own program" in text_of(refused)


async def test_the_client_is_not_the_last_word(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("list_tabs", groupBy="window"))
    for wrong in ({}, {"tabs": [TAB, TAB]}, {"tabs": [{**TAB, "mode": "secret"}]}, {**ONE_TAB, "problem": "none"}):
        assert (await answered(api, task, wrong)).status_code == 422
    await taken(api, task, ONE_TAB)
    assert said(await result(api, task["id"])).startswith(
        "# Found 1 tab in 1 group by window\n\n## Window 7 (1 tab)\n- By hand\n"
    )


async def test_the_largest_answer_that_a_browser_can_cause_is_taken(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("list_tabs", groupBy="host", pattern="(u+|x)+$"))
    title = "\N{GRINNING FACE}" * MAX_TITLE_CHARS
    url = "https://a.example/".ljust(MAX_URL_CHARS, "u")
    tabs = [{**TAB, "id": f"{number:064}", "title": title, "url": url} for number in range(MAX_TABS)]
    await taken(api, task, {"tabs": tabs, "omitted": 7})
    done = await result(api, task["id"])
    assert not done["is_error"], done["content"]
    assert done["structured"]["compressed"] is True
    stored = await api.get(f"/v1/outputs/{done['structured']['locator']}")
    assert stored.status_code == 200
    assert stored.json()["count"] == MAX_TABS, stored.text[:500]


async def test_many_tabs_are_listed_to_the_model_itself(api: httpx.AsyncClient) -> None:
    """As other tools whose arguments limit the answer: up to 64 KB."""
    task = await waiting(api, call("list_tabs", groupBy="host"))
    url = "https://a.example/".ljust(200, "u")
    await taken(api, task, {"tabs": [{**TAB, "id": f"T{number}", "url": url} for number in range(100)]})
    done = await result(api, task["id"])
    assert "locator" not in done["structured"]
    assert said(done).count(f"- By hand\n  {url}") == 100


async def test_incognito_tabs_that_nobody_asked_for_are_dropped_by_the_server_too(api: httpx.AsyncClient) -> None:
    secret = {**TAB, "id": "S", "title": "Secret", "mode": "incognito"}
    for arguments, count in (({}, 1), ({"groupBy": "mode"}, 2), ({"mode": "incognito"}, 1)):
        task = await waiting(api, call("list_tabs", **arguments))
        await taken(api, task, {"tabs": [TAB, secret]})
        done = await result(api, task["id"])
        assert done["structured"]["count"] == count
        assert ("Secret" in said(done)) is bool(arguments)


async def test_another_client_answers_after_kill_9(
    api: httpx.AsyncClient, browser: RunningBrowser, start_client: StartClient
) -> None:
    async with forwarding(None) as silent_browser:
        first = start_client(silent_browser.url)
        task_id = await started(api, call("list_tabs"))
        await silent_browser.accepted.wait()
        first.kill()
    assert (await asks(api, task_id))["status"] == "input_required"
    start_client(browser.url)
    assert said(await result(api, task_id)).startswith("# Found 1 tab")


async def test_of_several_clients_one_answer_counts(
    api: httpx.AsyncClient, browser: RunningBrowser, start_client: StartClient
) -> None:
    clients = [start_client(browser.url) for _ in range(2)]
    for client in clients:
        await client.tells("connected")
    for _ in range(3):
        assert not (await result(api, await started(api, call("list_tabs"))))["is_error"]

    def names() -> list[str]:
        return [name for client in clients for name in client.names()]

    await eventually(lambda: names().count("asked") == names().count("answered") + names().count("closed"))
    assert names().count("answered") == 3


async def test_who_comes_too_late_is_told_politely_and_goes_on(
    api: httpx.AsyncClient, start_client: StartClient
) -> None:
    async with forwarding(None) as silent_browser:
        client = start_client(silent_browser.url)
        task = await waiting(api, call("list_tabs"))
        await silent_browser.accepted.wait()
        await taken(api, task, ONE_TAB)
        assert not (await result(api, task["id"]))["is_error"]
    closed = await client.tells("closed")
    assert closed["task_id"] == task["id"]
    assert "already closed" in closed["message"]
    again = await result(api, await started(api, call("list_tabs")))
    assert again["is_error"]


async def test_without_a_browser_the_tool_says_what_to_do(api: httpx.AsyncClient, start_client: StartClient) -> None:
    url = free_address()
    client = start_client(url)
    failed = await result(api, await started(api, call("list_tabs")))
    assert failed["is_error"]
    assert (failed["error"]["category"], failed["error"]["retryable"]) == ("network", False)
    assert f"No browser answers at {url}. Start it with --remote-debugging-port" in failed["error"]["message"]
    await client.tells("failed")


async def test_the_client_comes_back_when_the_server_does(
    service: Service, api: httpx.AsyncClient, browser: RunningBrowser, start_client: StartClient
) -> None:
    address = urlsplit(service.api_url)
    async with forwarding((str(address.hostname), int(address.port or 0))) as line:
        client = start_client(browser.url, url=line.url)
        await client.tells("connected")
        await line.cut()
        task_id = await started(api, call("list_tabs"))
        await line.mend()
        assert not (await result(api, task_id))["is_error"]
        await client.tells("connected", times=2)


async def test_an_approval_is_not_the_clients_to_give(
    bob: httpx.AsyncClient, browser: RunningBrowser, start_client: StartClient
) -> None:
    client = start_client(browser.url, token=BOB)
    await client.tells("connected")
    task = await waiting(bob, call("list_tabs"))
    handoff = await one_handoff(bob)
    assert handoff["kind"] == "approval"
    await taken(bob, task, {"decision": "yes"})
    assert not (await result(bob, task["id"]))["is_error"]
    await client.tells("answered")
    assert client.names() == ["connected", "asked", "answered"]


async def test_a_person_is_asked_before_the_first_use(
    api: httpx.AsyncClient, browser: RunningBrowser, shell: Mapping[str, str]
) -> None:
    command = outlast_command("client", "--browser-url", browser.url)
    with on_terminal(command, shell, columns=200) as terminal:
        terminal.wait_for("Waiting for handoffs")
        task_id = await started(api, call("list_tabs"))
        terminal.wait_for(r"title and address of every tab")
        terminal.type("no")
        declined = await result(api, task_id)
        assert (declined["is_error"], declined["error"]["category"]) == (True, "permission")
        task_id = await started(api, call("list_tabs"))
        terminal.wait_for(r"(?s)Allow it.*Allow it")
        terminal.type("yes")
        assert not (await result(api, task_id))["is_error"]
        assert not (await result(api, await started(api, call("list_tabs"))))["is_error"]
        task_id = await started(api, call("list_tabs", mode="incognito"))
        terminal.wait_for(r"title and address of every incognito tab")
        terminal.type("no")
        assert (await result(api, task_id))["is_error"]
        terminal.press_ctrl_c()
        assert terminal.end() == 130
    assert terminal.screen.count("Allow it") == 3
    assert "Stopped" in terminal.screen


async def test_a_terminal_that_calls_is_not_asked_for_tabs(
    api: httpx.AsyncClient, browser: RunningBrowser, shell: Mapping[str, str], start_client: StartClient
) -> None:
    with on_terminal(outlast_command("call", "list_tabs"), shell, columns=200) as terminal:
        terminal.wait_for("outlast client")
        start_client(browser.url)
        assert terminal.end() == 0
    assert "Found 1 tab" in terminal.screen
    assert "as JSON" not in terminal.screen


async def test_events_tell_what_opens_and_what_closes(api: httpx.AsyncClient) -> None:
    task = await waiting(api, call("list_tabs"))
    told: list[str] = []
    async with api.stream("GET", "/v1/handoffs/events", params={"tool": "list_tabs"}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                told.append(line.removeprefix("event: "))
                if told == ["handoff"]:
                    await taken(api, task, ONE_TAB)
            if told == ["handoff", "handoff_closed"]:
                break
    assert told == ["handoff", "handoff_closed"]


def test_a_client_without_a_terminal_or_a_wrong_address_says_so(shell: Mapping[str, str]) -> None:
    for arguments, words in ((["--yes", "--browser-url", "http://10.0.0.1:1"], "SSH"), ([], "--yes")):
        ended = subprocess.run(
            outlast_command("client", *arguments),
            env=dict(shell),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == 2
        assert words in ended.stderr
