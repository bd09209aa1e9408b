"""What the pages show: without anything from elsewhere, as the address says, and as text."""

from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, Page, expect

from tests.integration.console.people import People

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202edrah"


async def ended(people: People, name: str, *task_ids: str) -> None:
    """Wait until these tasks have ended."""
    async with people.http(name) as http:
        for task_id in task_ids:
            answer = await http.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})
            assert answer.status_code == 200


async def failed(people: People, name: str, *messages: str) -> list[str]:
    """Let a run fail with each message. Returns the ids of the tasks."""
    tasks = [await people.call(name, failWith={"message": message}, seconds=0) for message in messages]
    await ended(people, name, *(task["id"] for task in tasks))
    return [task["id"] for task in tasks]


async def calls_shown(page: Page) -> list[str]:
    """The ids of the tasks in the list of a page."""
    return await page.locator("#live-list td small").evaluate_all("all => all.map(one => one.title)")


@pytest.mark.slow
async def test_every_page_works_offline_and_under_its_policy(people: People, chromium: Browser) -> None:
    (task_id,) = await failed(people, "ops", "shop 1 answers 403")
    async with people.browser(chromium, "ops") as (page, seen):
        links = await page.locator("nav.bar li a").evaluate_all("all => all.map(one => one.href)")
        pages = [*links, f"{people.console}tasks/{task_id}", f"{people.console}nothing"]
        for address in pages:
            answer = await page.goto(address)
            assert answer is not None
            policy = answer.headers.get("content-security-policy", "")
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            if answer.status == 200:
                await expect(page.locator("main h1")).to_be_visible()
        assert len(links) >= 5
    assert seen.foreign == []
    assert [one for one in seen.problems if "404" not in one] == []


@pytest.mark.slow
async def test_the_overview_says_what_failed_and_why(people: People, chromium: Browser) -> None:
    messages = [*(f"shop {number} answers 403" for number in range(3)), "out of luck", "out of luck", "no stock"]
    ids = await failed(people, "carl", *messages)
    async with people.browser(chromium, "carl") as (page, _):
        rows = page.locator("#live-failures tbody tr")
        await expect(rows).to_have_count(3)
        assert "failed" in await page.title()
        counts = await rows.locator("td:first-child").all_inner_texts()
        assert counts == ["3", "2", "1"]
        await expect(rows.first).to_contain_text("shop # answers 403")
        await page.get_by_role("link", name="All failures").click()
        await expect(page.locator("#live-list tbody tr")).to_have_count(len(ids))
        assert set(await calls_shown(page)) == set(ids)


@pytest.mark.slow
async def test_the_filters_are_the_address_and_survive_back_and_work_without_javascript(
    people: People, chromium: Browser
) -> None:
    (of_bob,) = await failed(people, "bob", "shop 1 answers 403")
    await failed(people, "ops", "shop 2 answers 403")
    good = await people.call("bob", seconds=0)
    await ended(people, "bob", good["id"])
    async with people.browser(chromium, "ops") as (page, _):
        await page.get_by_role("link", name="Tasks").click()
        await page.get_by_label("Status").select_option("failed")
        await page.get_by_label("Caller").fill("key:bob")
        await page.get_by_label("Actor").fill("outlast/sleeper")
        await page.get_by_role("button", name="Filter").click()
        await page.wait_for_url("**/tasks?*key*")
        assert await calls_shown(page) == [of_bob]
        await page.locator("#live-list a.name").first.click()
        await expect(page.locator("#timeline")).to_be_visible()
        await page.go_back()
        assert await calls_shown(page) == [of_bob]
        await expect(page.get_by_label("Caller")).to_have_value("key:bob")
        address = page.url
    async with people.browser(chromium, None, java_script_enabled=False) as (page, _):
        await page.goto(address)
        await people.log_in(page, "ops")
        assert page.url == address
        assert await calls_shown(page) == [of_bob]
        await page.get_by_role("link", name="Clear filters").first.click()
        assert len(await calls_shown(page)) > 1


async def test_a_filter_that_cannot_be_read_is_explained(people: People) -> None:
    async with people.session("ops") as browser:
        answer = await browser.get("/console/tasks", params={"since": "yesterday-ish"})
        assert answer.status_code == 400
        assert "since" in answer.text


@pytest.mark.slow
async def test_a_list_changes_by_itself_and_keeps_what_is_typed(people: People, chromium: Browser) -> None:
    async with people.browser(chromium, "ann") as (page, _):
        await page.goto(f"{people.console}tasks?{urlencode({'tool': 'call-actor'})}")
        note = page.get_by_label("Actor")
        await note.fill("half ty")
        task = await people.call("ann", seconds=0)
        row = page.locator("#live-list tbody tr", has=page.locator(f'small[title="{task["id"]}"]'))
        await expect(row.locator(".pill")).to_contain_text("Completed")
        await expect(note).to_have_value("half ty")
        assert await page.evaluate("document.activeElement.name") == "actor"
        await expect(page.locator("#seen")).to_have_text("live")


@pytest.mark.slow
async def test_text_of_others_is_text(people: People, chromium: Browser) -> None:
    (task_id,) = await failed(people, "ann", HOSTILE)
    rows = await people.call("ann", seconds=0, rows=1, statusMessage=HOSTILE)
    await ended(people, "ann", rows["id"])
    async with people.browser(chromium, "ann") as (page, seen):
        for path in ("", "tasks", f"tasks/{task_id}", f"tasks/{task_id}?tab=answer", f"tasks?tool={HOSTILE}"):
            await page.goto(f"{people.console}{path}")
            await expect(page.locator("main")).to_be_visible()
            assert await page.title() != "owned"
            assert await page.locator("main img, main script").count() == 0
        await page.goto(f"{people.console}tasks/{task_id}")
        await expect(page.locator(".error")).to_contain_text("<script>")
        assert "\u202e" not in await page.content()
    assert [one for one in seen.problems if "Content Security Policy" in one] == []
    assert seen.foreign == []


@pytest.mark.slow
async def test_no_page_scrolls_sideways_on_a_phone(people: People, chromium: Browser) -> None:
    (task_id,) = await failed(people, "ops", "a_very_long_word_" * 20)
    async with people.browser(chromium, "ops", viewport={"width": 390, "height": 844}) as (page, _):
        links = await page.locator("nav.bar li a").evaluate_all("all => all.map(one => one.href)")
        for address in [*links, f"{people.console}tasks/{task_id}"]:
            await page.goto(address)
            widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert widths[0] <= widths[1], address
