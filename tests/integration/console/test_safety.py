"""Who may see and do what: sessions of browsers, forged requests, and keys that may only read."""

from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, expect
from temporalio.client import Client

from outlast.api.access.policy.policy_file import remove_key
from tests.integration.console.people import People
from tests.support.http.api_client import api_client
from tests.support.http.pages import serving_pages
from tests.support.stacks.api_server import api_settings, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

BROWSER = {"Accept": "text/html"}
LOGIN = "/console/login"


async def test_a_browser_at_the_root_is_sent_to_the_console_and_a_program_is_not(people: People) -> None:
    async with api_client(people.url) as http:
        answer = await http.get("/", headers=BROWSER)
        assert (answer.status_code, answer.headers["location"]) == (303, "console/")
        assert (await http.get("/")).status_code == 404
        page = await http.get("/console/tasks?status=failed", headers=BROWSER)
        assert (page.status_code, page.headers["location"]) == (303, "./login?next=tasks%3Fstatus%3Dfailed")


async def test_the_cookie_of_a_session_names_the_key_and_serves_the_console_alone(people: People) -> None:
    async with api_client(people.url) as http:
        own = {"Origin": people.url}
        answer = await http.post(LOGIN, data={"key": people.tokens["ann"], "next": ""}, headers=own)
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert people.tokens["ann"].rpartition("_")[2] not in cookie
        assert (await http.get("/console/")).status_code == 200
        assert (await http.get("/v1/tasks")).status_code == 401
    assert [record["caller"] for record in people.audited("console.opened")] == ["key:ann"]


async def test_behind_tls_the_cookie_is_of_this_host_alone(people: People) -> None:
    async with api_client(people.url) as http:
        own = {"Origin": people.url.replace("http:", "https:")}
        answer = await http.post(LOGIN, data={"key": people.tokens["ann"]}, headers=own)
        assert answer.headers["set-cookie"].startswith("__Host-outlast=")
        assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_only_pages_of_the_console_can_log_in_and_act(people: People, headers: dict[str, str]) -> None:
    task = await people.call("ann", seconds=60)
    async with people.session("ann") as browser:
        page = await browser.get(f"/console/tasks/{task['id']}")
        token = page.text.partition('name="token" value="')[2].partition('"')[0]
        cancel = f"/console/tasks/{task['id']}/cancel"
        for path, data in ((cancel, {"token": token}), (LOGIN, {"key": people.tokens["ops"]})):
            assert (await browser.post(path, data=data, headers=headers)).status_code == 403
        own = {"Origin": people.url}
        for wrong in ({"token": ""}, {"token": "0" * 64}, {"token": await token_of(people, "ops")}):
            assert (await browser.post(cancel, data=wrong, headers=own)).status_code == 403
        assert people.audited("task.cancelled") == []
        answer = await browser.post(cancel, data={"token": token}, headers={"Sec-Fetch-Site": "same-origin"})
        assert (answer.status_code, answer.headers["location"]) == (303, f"../../tasks/{task['id']}")
    (record,) = people.audited("task.cancelled")
    assert (record["door"], record["caller"], record["key"]) == ("console", "key:ann", "ann")


async def token_of(people: People, name: str) -> str:
    """The token in the forms of another session."""
    async with people.session(name) as browser:
        return (await browser.get("/console/")).text.partition('name="token" value="')[2].partition('"')[0]


async def test_wrong_keys_count_as_wrong_tokens(sandbox: Sandbox, temporal: Client, people: People) -> None:
    settings = api_settings(sandbox, policy_file=people.policy, failed_credentials_per_minute=3)
    async with serving_api(temporal, settings) as http:
        own = {"Origin": str(http.base_url).rstrip("/")}
        statuses = [
            (await http.post(LOGIN, data={"key": f"ol_ann_{number}"}, headers=own)).status_code for number in range(5)
        ]
        assert statuses == [401, 401, 401, 429, 429]
        good = await http.get("/v1/tasks", headers={"Authorization": "Bearer ol_ann_7"})
        assert good.status_code == 429


async def test_a_revoked_key_ends_its_sessions(people: People) -> None:
    async with people.session("reader") as browser:
        assert (await browser.get("/console/tasks")).status_code == 200
        async with browser.stream("GET", "/console/live/tasks") as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()
            await anext(lines)
            remove_key(people.policy, "reader")
            async for _ in lines:
                pass
        answer = await browser.get("/console/tasks")
        assert answer.headers["location"].startswith("./login")
        assert (await browser.get("/console/live/tasks")).status_code == 401


async def test_logging_out_ends_the_session_and_its_streams(people: People) -> None:
    async with people.session("ann") as browser:
        cookies = dict(browser.cookies)
        token = (await browser.get("/console/")).text.partition('name="token" value="')[2].partition('"')[0]
        async with browser.stream("GET", "/console/live/tasks") as stream:
            own = {"Origin": people.url}
            answer = await browser.post("/console/logout", data={"token": token}, headers=own)
            assert "Max-Age=0" in answer.headers["set-cookie"]
            async for _ in stream.aiter_lines():
                pass
    async with httpx.AsyncClient(base_url=people.url, cookies=cookies) as kept:
        assert (await kept.get("/console/")).status_code == 303


@pytest.mark.parametrize("name", ["reader", "watch"])
async def test_a_key_that_may_only_read_finds_no_button_and_changes_nothing(people: People, name: str) -> None:
    of_ann, of_agent = await people.call("ann", seconds=60), await people.call("agent", seconds=60)
    async with people.session(name) as browser:
        paths = ["", "tasks", "approvals", "batches", "money", "schedules", "sessions", "webhooks", "tools"]
        if name == "watch":
            paths += ["servers", "system", f"tasks/{of_ann['id']}", f"tasks/{of_agent['id']}"]
        for path in paths:
            page = await browser.get(f"/console/{path}")
            assert page.status_code == 200, path
            forms = page.text.count('method="post"')
            assert forms == page.text.count('action="../logout"') + page.text.count('action="./logout"') == 1
            assert "read only" in page.text
        home = (await browser.get("/console/")).text
        token = home.partition('name="token" value="')[2].partition('"')[0]
        own = {"Origin": people.url}
        for act in ("cancel", "answer", "resolve", "resurrect"):
            answer = await browser.post(f"/console/tasks/{of_ann['id']}/{act}", data={"token": token}, headers=own)
            assert answer.status_code == 403
        for act in ("cancel", "retry", "resume"):
            answer = await browser.post(f"/console/batches/b/{act}", data={"token": token}, headers=own)
            assert answer.status_code == 403
        listed = (await browser.get("/console/tasks")).text
        assert (of_ann["id"] in listed) == (name == "watch")
    async with people.http("ann") as http:
        assert (await http.get(f"/v1/tasks/{of_ann['id']}")).json()["status"] == "working"
        await http.post(f"/v1/tasks/{of_ann['id']}/cancel")


async def test_a_caller_sees_nothing_of_others(people: People) -> None:
    task = await people.call("ops", seconds=0)
    async with people.session("ann") as browser:
        answer = await browser.get(f"/console/tasks/{task['id']}")
        assert answer.status_code == 404
        assert task["id"] not in (await browser.get("/console/tasks")).text


@pytest.mark.slow
async def test_a_form_on_another_page_can_do_nothing(people: People, chromium: Browser) -> None:
    task = await people.call("ann", seconds=60)
    forms = "".join(
        f'<form method="post" action="{base}/console/{path}"><input name="key"><button>{number}</button></form>'
        for number, (base, path) in enumerate(
            (base, path)
            for base in (people.url, people.url.replace("127.0.0.1", "localhost"))
            for path in (f"tasks/{task['id']}/cancel", f"tasks/{task['id']}/answer", "login", "logout")
        )
    )
    with serving_pages() as elsewhere:
        address = elsewhere.page("/forms", forms)
        async with people.browser(chromium, "ann") as (page, _):
            for number in range(8):
                await page.goto(address)
                async with page.expect_navigation() as moved:
                    await page.get_by_role("button", name=str(number), exact=True).click()
                answer = await moved.value
                assert answer is not None
                assert answer.status == 403
            await page.goto(people.console)
            await expect(page.locator("main h1")).to_have_text("Overview")
    assert people.audited("task.cancelled") == []


@pytest.mark.slow
async def test_an_approval_by_another_role_lets_the_call_go_on(people: People, chromium: Browser) -> None:
    task = await people.call("agent", seconds=0)
    async with people.browser(chromium, "agent") as (maker, _), people.browser(chromium, "ann") as (other, _):
        await maker.goto(f"{people.console}approvals")
        card = maker.locator(f"#card-{task['id']}")
        await expect(card).to_contain_text("Waits for another caller")
        assert await card.get_by_role("button").count() == 0
        await other.goto(f"{people.console}approvals")
        assert await other.locator(f"#card-{task['id']}").count() == 0
    async with people.browser(chromium, "ops") as (page, _), people.browser(chromium, "ops") as (second, _):
        await page.goto(f"{people.console}approvals")
        await second.goto(f"{people.console}tasks/{task['id']}")
        await expect(second.get_by_role("button", name="Refuse")).to_be_visible()
        refuse = second.locator("form", has=second.get_by_role("button", name="Refuse"))
        kept = await refuse.evaluate("form => Object.fromEntries(new FormData(form))")
        card = page.locator(f"#card-{task['id']}")
        await card.get_by_label("Note").fill("go ahead")
        await card.get_by_role("button", name="Approve").press("Enter")
        await expect(card).to_have_count(0)
        answer = await second.request.post(
            f"{people.console}tasks/{task['id']}/answer",
            form={**kept, "decision": "no"},
            headers={"Origin": people.url},
            max_redirects=0,
        )
        assert answer.status in (404, 409)
    async with people.http("agent") as http:
        result = await http.get(f"/v1/tasks/{task['id']}/result", params={"wait": 60})
        assert result.json()["task"]["status"] == "completed"
    (record,) = people.audited("task.approved")
    assert (record["door"], record["caller"]) == ("console", "key:ops")


async def test_without_keys_there_is_no_login_on_loopback(service: Service) -> None:
    async with api_client(service.api_url) as http:
        page = await http.get("/console/")
        assert page.status_code == 200
        assert "Log out" not in page.text
        token = page.text.partition('name="token" value="')[2].partition('"')[0]
        assert token == ""
        forwarded = await http.get("/console/", headers={"X-Forwarded-For": "10.1.2.3"})
        assert forwarded.headers["location"].startswith("./login")


async def test_without_the_console_there_is_nothing(sandbox: Sandbox, temporal: Client, tmp_path: Path) -> None:
    settings = api_settings(sandbox, web_console="off", data_dir=tmp_path)
    async with serving_api(temporal, settings) as http:
        for path in ("/", "/console", "/console/", "/console/tasks", "/console/static/console.css"):
            assert (await http.get(path, headers=BROWSER)).status_code == 404
