"""Callers with different rights, and their browsers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, Page, Request

from outlast.api.access.api_keys import new_key
from outlast.api.access.policy.contracts import KeyEntry, Scope
from outlast.api.access.policy.policy_file import add_key
from tests.support.calls.tasks import sleeper_call
from tests.support.http.api_client import api_client

SCOPES: dict[str, set[Scope]] = {
    "ann": {"read", "call", "cancel"},
    "bob": {"read", "call", "cancel"},
    "carl": {"read", "call", "cancel"},
    "agent": {"read", "call", "cancel"},
    "ops": {"read", "call", "cancel", "approve", "admin"},
    "reader": {"read"},
    "watch": {"read", "admin"},
}
_RULES = """
[callers."key:ops"]
roles = ["ops"]

[[rules]]
caller = "key:agent"
tool = "*"
action = "ask"
approver = "ops"
"""


def make_policy(path: Path) -> tuple[Path, dict[str, str]]:
    """Write a policy with a key for each of `SCOPES`. Returns it, and the keys by name."""
    tokens: dict[str, str] = {}
    path.write_text(_RULES)
    for name, scopes in SCOPES.items():
        key, hashed = new_key(name)
        tokens[name] = key.get_secret_value()
        add_key(path, KeyEntry(id=name, caller=f"key:{name}", hash=str(hashed), scopes=frozenset(scopes)))
    return path, tokens


@dataclass
class Seen:
    """What a page did that it must not do."""

    foreign: list[str]
    problems: list[str]


@dataclass(frozen=True)
class People:
    """The callers of one API."""

    url: str
    policy: Path
    tokens: dict[str, str]
    audit: Path

    @property
    def console(self) -> str:
        """The address of the console."""
        return f"{self.url}/console/"

    def http(self, name: str) -> httpx.AsyncClient:
        """A client of the REST API."""
        return api_client(self.url, self.tokens[name])

    @asynccontextmanager
    async def browser(self, browser: Browser, name: str | None, **options: Any) -> AsyncIterator[tuple[Page, Seen]]:
        """A window of its own, logged in as a caller. Records what leaves the server, and errors."""
        window = await browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        page, seen = await window.new_page(), Seen([], [])

        def requested(request: Request) -> None:
            if not request.url.startswith((self.url, "data:")):
                seen.foreign.append(request.url)

        page.on("request", requested)
        page.on("console", lambda one: seen.problems.append(one.text) if one.type == "error" else None)
        page.on("pageerror", lambda error: seen.problems.append(str(error)))
        try:
            if name is not None:
                await self.log_in(page, name)
            yield page, seen
        finally:
            await window.close()

    async def log_in(self, page: Page, name: str) -> None:
        """Log in with the key of a caller, from whatever page asks for it."""
        if "/login" not in page.url:
            await page.goto(f"{self.console}login")
        await page.get_by_label("API key").fill(self.tokens[name])
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_url(lambda url: "/login" not in url)

    @asynccontextmanager
    async def session(self, name: str) -> AsyncIterator[httpx.AsyncClient]:
        """A client with the cookie of a logged-in browser, and without its headers."""
        async with api_client(self.url) as client:
            form = {"key": self.tokens[name], "next": ""}
            answer = await client.post("/console/login", data=form, headers={"Origin": self.url})
            assert answer.status_code == 303, answer.text
            yield client

    async def call(self, name: str, seconds: float = 0, **run_input: Any) -> dict[str, Any]:
        """Start a run of the sleeper."""
        async with self.http(name) as http:
            answer = await http.post("/v1/tasks", json=sleeper_call(seconds, **run_input))
        assert answer.status_code == 201, answer.text
        return answer.json()

    def audited(self, event: str) -> list[dict[str, Any]]:
        """The audit records of an event."""
        lines = (json.loads(line) for line in self.audit.read_text().splitlines())
        return [line for line in lines if line.get("event") == event]
