"""Takes the screenshots of docs/operators.md: starts a stack on free ports, runs tasks, photographs the Temporal UI.

    .venv/bin/python docs/screenshots/take.py [--only NAME] [--browser /usr/bin/chromium]

Needs Chromium (Debian: `apt-get install chromium`); the stack and its state are gone afterwards.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import FloatRect, Page, async_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import StackAddresses

FOLDER = Path(__file__).parent
BROWSER_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
COLUMNS = (
    "Status",
    "Workflow ID",
    "OutlastTaskStatus",
    "OutlastTool",
    "OutlastActor",
    "OutlastExecutor",
    "OutlastCaller",
)
WIDTH = 1700
SIDEBAR, HEADER = 256, 48
SETTLE_MILLISECONDS = 1_500
"""For fonts, and for what slides into place."""
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Tasks:
    """The tasks in the pictures, by what they show."""

    finished: str
    running: str
    waiting: str


class Client:
    """Calls the API and gives the sandbox its orders."""

    def __init__(self, addresses: StackAddresses, http: httpx.AsyncClient) -> None:
        self._api = addresses.api_url
        self._sandbox = addresses.sandbox_url
        self._http = http

    async def start(self, tool: str, arguments: dict[str, Any], *, wait: int = 0, **more: Any) -> str:
        """The id of a new task, after it has ended when `wait` is given."""
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        body = {"tool": tool, "arguments": arguments, **more}
        answer = await self._http.post(f"{self._api}/v1/tasks", json=body, headers=headers)
        document = answer.raise_for_status().json()
        return document["task"]["id"] if wait else document["id"]

    async def sleep(self, seconds: float, *, wait: int = 0, mode: str = "default", **run_input: Any) -> str:
        """A task that runs the sleeper."""
        arguments = {"actor": "outlast/sleeper", "input": {"seconds": seconds, **run_input}}
        return await self.start("call-actor", arguments, wait=wait, mode=mode)

    async def cancel(self, task_id: str) -> None:
        """Ask for a task to be cancelled."""
        (await self._http.post(f"{self._api}/v1/tasks/{task_id}/cancel")).raise_for_status()

    async def until_message(self, task_id: str, part: str) -> None:
        """Wait until the task's status message has `part` in it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while part not in ((await self._task(task_id))["status_message"] or ""):
                await asyncio.sleep(0.5)

    async def limit_runs(self, count: int) -> None:
        """Let the account have this many runs at once."""
        (await self._http.post(f"{self._sandbox}/sandbox/limits", json={"concurrentRuns": count})).raise_for_status()

    async def _task(self, task_id: str) -> dict[str, Any]:
        return (await self._http.get(f"{self._api}/v1/tasks/{task_id}")).raise_for_status().json()


async def prepare(client: Client) -> Tasks:
    """Tasks of every kind: completed, failed, cancelled, running, guarding, waiting for capacity."""
    finished = await client.start("outlast--big-table", {"rows": 2_000, "columns": "narrow"}, wait=60)
    await client.sleep(1, wait=30, failWith={"exitCode": 3, "message": "Out of luck"})
    cancelled = await client.sleep(120)
    await client.until_message(cancelled, "Slept")
    await client.cancel(cancelled)
    await client.sleep(900, steps=900, mode="openai")
    running = await client.sleep(900, steps=300, message="reading the shelves")
    await client.until_message(running, "Slept 3")
    await client.limit_runs(2)
    waiting = await client.sleep(5)
    await client.until_message(waiting, "Attempt 2")
    return Tasks(finished=finished, running=running, waiting=waiting)


async def show_list(page: Page, ui: str, _tasks: Tasks) -> None:
    """The list of workflows with the search attributes as columns."""
    columns = json.dumps({"default": [{"label": label} for label in COLUMNS]})
    await page.goto(f"{ui}/namespaces/default/workflows")
    await page.evaluate("columns => localStorage.setItem('namespace-workflow-table-columns', columns)", columns)
    await page.goto(f"{ui}/namespaces/default/workflows")
    await page.get_by_text("outlast/big-table").first.wait_for()


async def show_finished(page: Page, ui: str, tasks: Tasks) -> None:
    """A sync call of an Actor that has ended: input, result, timeline."""
    await page.goto(f"{ui}/namespaces/default/workflows/{tasks.finished}")
    await page.get_by_text("wait_for_run").first.wait_for()


async def show_details(page: Page, ui: str, tasks: Tasks) -> None:
    """The summary and the current details of the same call."""
    await _open_tab(page, ui, tasks.finished, "user-metadata")
    await page.get_by_text("Current Details").wait_for()
    await page.locator("iframe").last.wait_for()


async def show_running(page: Page, ui: str, tasks: Tasks) -> None:
    """A running task: the pending activity and its heartbeat."""
    await _open_tab(page, ui, tasks.running, "pending-activities")
    await page.get_by_text("Heartbeat Details", exact=True).wait_for()
    await page.get_by_text("reading the shelves").last.wait_for()


async def show_waiting(page: Page, ui: str, tasks: Tasks) -> None:
    """A task that waits for capacity: the pending activity and its last failure."""
    await _open_tab(page, ui, tasks.waiting, "pending-activities")
    await page.get_by_text("Last Failure", exact=True).first.wait_for()


async def show_decrypted(page: Page, ui: str, tasks: Tasks) -> None:
    """A call whose history is encrypted, as the UI shows it: the codec endpoint of the API has decrypted it."""
    await page.goto(f"{ui}/namespaces/default/workflows/{tasks.finished}")
    await page.get_by_text("outlast--big-table").first.wait_for()


async def _open_tab(page: Page, ui: str, task_id: str, tab: str) -> None:
    await page.goto(f"{ui}/namespaces/default/workflows/{task_id}")
    await page.get_by_test_id(f"{tab}-tab").click()


Pictures = dict[str, tuple[Callable[[Page, str, Tasks], Awaitable[None]], int]]
PICTURES: Pictures = {
    "workflow-list": (show_list, 620),
    "finished-task": (show_finished, 980),
    "finished-task-details": (show_details, 620),
    "running-task": (show_running, 850),
    "waiting-task": (show_waiting, 812),
}
"""Each picture's name, how to bring the page into view, and the height of the window."""
ENCRYPTED: Pictures = {"decrypted-task": (show_decrypted, 900)}
"""Those of a stack that encrypts histories."""


async def take(ui: str, tasks: Tasks, browser_path: str, pictures: Pictures) -> None:
    """Take the pictures of one stack."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path, args=BROWSER_ARGUMENTS)
        for name, (show, height) in pictures.items():
            page = await browser.new_page(viewport={"width": WIDTH, "height": height}, timezone_id="UTC")
            await show(page, ui, tasks)
            await page.wait_for_timeout(SETTLE_MILLISECONDS)
            clip = FloatRect(x=SIDEBAR, y=HEADER, width=WIDTH - SIDEBAR, height=height - HEADER)
            await page.screenshot(path=FOLDER / f"{name}.png", clip=clip)
            sys.stdout.write(f"{name}.png\n")
            await page.close()
        await browser.close()


@asynccontextmanager
async def stack_on_free_ports(folder: Path) -> AsyncIterator[StackAddresses]:
    """A stack of its own, so that no other one is in its way or in the pictures."""
    ports = {name: 0 for name in StackConfig.model_fields if name.endswith("_port")}
    async with Stack(StackConfig.from_environment(data_dir=folder, **ports)) as stack:
        yield stack.addresses


async def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PICTURES | ENCRYPTED)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    given = parser.parse_args()
    for encryption, pictures in (("off", PICTURES), ("on", ENCRYPTED)):
        wanted = {name: how for name, how in pictures.items() if given.only in (None, name)}
        if wanted:
            os.environ["OUTLAST_ENCRYPTION"] = encryption
            await take_of_a_stack(given.browser, wanted)


async def take_of_a_stack(browser_path: str, pictures: Pictures) -> None:
    """Start a stack with tasks of every kind, and take pictures of it."""
    with tempfile.TemporaryDirectory() as folder:
        async with stack_on_free_ports(Path(folder)) as addresses, httpx.AsyncClient(timeout=90) as http:
            tasks = await prepare(Client(addresses, http))
            await take(str(addresses.temporal_ui_url), tasks, browser_path, pictures)


if __name__ == "__main__":
    asyncio.run(main())
