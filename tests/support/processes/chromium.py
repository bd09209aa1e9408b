"""Debian's Chromium as a process with a debugging port, as a user starts it."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from outlast.cli.client_tools.browser_tabs import DevTools, devtools_of
from outlast.deploy.local.orphans import die_with_parent
from tests.support.eventually import eventually
from tests.support.needs import require

CHROMIUM = "/usr/bin/chromium"
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-port=0",
)


class RunningBrowser:
    """A browser; `url` is its debugging port."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def open_tab(self, address: str, *, new_window: bool = False, context: str | None = None) -> str:
        """Open a page; the id of its tab."""
        async with devtools_of(self.url) as browser:
            where: dict[str, Any] = {"newWindow": new_window or context is not None}
            where |= {"browserContextId": context} if context else {}
            target = await browser.call("Target.createTarget", url=address, **where)
            return target["targetId"]

    async def navigate(self, target_id: str, expression: str) -> None:
        """Have a page run `expression`, without waiting for what comes of it."""
        async with devtools_of(self.url) as browser:
            attached = await browser.call("Target.attachToTarget", targetId=target_id, flatten=True)
            session = attached["sessionId"]
            await browser.call("Runtime.evaluate", session_id=session, expression=f"setTimeout(() => {{{expression}}})")

    async def incognito(self) -> str:
        """The id of a new browser context that shares nothing with the user's own."""
        async with devtools_of(self.url) as browser:
            return (await browser.call("Target.createBrowserContext"))["browserContextId"]

    async def titles(self) -> set[str]:
        """What the open pages are called."""
        async with devtools_of(self.url) as browser:
            return {target["title"] for target in (await _targets(browser)) if target["type"] == "page"}


@contextmanager
def chromium_process(folder: Path, *flags: str) -> Iterator[Path]:
    """Run Chromium until the end of the block; the file in which it says its port."""
    require("chromium")
    with (folder / "chromium.log").open("ab") as log:
        process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent(),
        )
    try:
        yield folder / "profile" / "DevToolsActivePort"
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


@asynccontextmanager
async def running_browser(folder: Path, *flags: str) -> AsyncIterator[RunningBrowser]:
    """A browser with one empty tab."""
    with chromium_process(folder, *flags) as port_file:

        def port() -> str | None:
            lines = port_file.read_text().split() if port_file.exists() else []
            return lines[0] if len(lines) == 2 else None

        browser = RunningBrowser(f"http://127.0.0.1:{await eventually(port, timeout_seconds=180)}")
        await eventually(browser.titles, timeout_seconds=180)
        yield browser


@asynccontextmanager
async def endless_page() -> AsyncIterator[str]:
    """The address of a page whose end never comes."""

    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99999\r\n\r\n")
            writer.write(b"<title>Endless</title><body>" + b" " * 2048)
            await reader.read()  # until the browser goes
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # it is gone already
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _targets(browser: DevTools) -> list[dict[str, str]]:
    return (await browser.call("Target.getTargets"))["targetInfos"]
