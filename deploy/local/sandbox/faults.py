"""Injected faults: responses that are lost, late, truncated or replaced, at the outermost edge of the server.

README.md describes them. Faults are kept in memory: a restart of the sandbox removes them.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, error_response, now
from outlast.deploy.local.sandbox.runs import Runs

_IDS = re.compile(r"(?<=/)(?:[A-Za-z0-9]{17}|[a-z0-9-]+~[a-z0-9-]+)(?=/|$)")
REQUEST_ACTIONS = (
    "status", "replace", "delay", "drop_before", "drop_after", "truncate", "status_after", "delay_after", "hang",
)  # fmt: skip
STATE_ACTIONS = ("late_runs", "late_resurrection", "hide_list_user_agent", "late_item_count", "late_items")
_ERROR_TYPES = {401: "user-or-token-not-found", 403: "insufficient-permissions", 429: "rate-limit-exceeded"}
"""The platform's names of these errors."""


@dataclass(slots=True)
class Fault:
    """Fault, as the control API defined it."""

    id: int
    action: str
    method: str | None
    path: re.Pattern[str]
    user_agent: re.Pattern[str] | None
    times: int | None
    after: int
    options: JsonObject
    matches: int = 0
    hits: int = 0

    def strikes(self, method: str, path: str, user_agent: str) -> bool:
        """Return whether the fault applies to this request, and count the match."""
        if self.times is not None and self.hits >= self.times:
            return False
        if self.method not in {None, method} or not self.path.search(path):
            return False
        if self.user_agent is not None and not self.user_agent.search(user_agent):
            return False
        self.matches += 1
        if self.matches <= self.after:
            return False
        self.hits += 1
        return True

    def shown(self) -> JsonObject:
        """Return the fault as the control API shows it."""
        return {
            "id": self.id,
            "action": self.action,
            "match": {
                "method": self.method,
                "path": self.path.pattern,
                "userAgent": self.user_agent.pattern if self.user_agent else None,
            },
            "times": self.times,
            "after": self.after,
            **self.options,
            "matches": self.matches,
            "hits": self.hits,
        }


class Faults:
    """Faults that are set."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(self, definition: JsonObject) -> Fault:
        """Add a fault from the body of a control API request. Raises `ApiError` 400 for an invalid one."""
        action, known = definition.get("action"), REQUEST_ACTIONS + STATE_ACTIONS
        if action not in known:
            raise ApiError(400, "invalid-input", f"'action' must be one of {', '.join(known)}")
        match = cast("JsonObject", definition.get("match") or {})
        method, times = match.get("method"), definition.get("times")
        named = {"action", "match", "times", "after"}
        try:
            fault = Fault(
                id=next(self._ids),
                action=action,
                method=str(method).upper() if method else None,
                path=re.compile(str(match.get("path", ""))),
                user_agent=re.compile(str(match["userAgent"])) if match.get("userAgent") else None,
                times=None if times is None else int(times),
                after=int(definition.get("after", 0)),
                options={key: value for key, value in definition.items() if key not in named},
            )
        except (re.error, ValueError, TypeError) as error:
            raise ApiError(400, "invalid-input", f"The fault is invalid: {error}") from error
        self._faults.append(fault)
        return fault

    def clear(self, fault_id: int | None = None) -> int:
        """Remove one fault or all of them; return how many."""
        kept = [fault for fault in self._faults if fault_id is not None and fault.id != fault_id]
        removed = len(self._faults) - len(kept)
        self._faults = kept
        return removed

    def all(self) -> list[JsonObject]:
        """Return all faults with their counts."""
        return [fault.shown() for fault in self._faults]

    def first(self, actions: Container[str], method: str, path: str, user_agent: str) -> Fault | None:
        """Return the first fault with one of these actions that applies to a request, if any."""
        candidates = (fault for fault in self._faults if fault.action in actions)
        return next((fault for fault in candidates if fault.strikes(method, path, user_agent)), None)

    def of_request(self, action: str, request: Request) -> Fault | None:
        """Return the fault with this action that applies to a request, if any."""
        return self.first({action}, request.method, request.url.path, request.headers.get("user-agent", ""))

    def rows_shown(self, request: Request, *, rows: int, changed_at: float) -> int:
        """Return how many of a dataset's `rows` a reader sees where replicas lag behind its last change."""
        fault = self.of_request("late_items", request)
        if fault is None or changed_at + float(fault.options.get("seconds", 2)) < now():
            return rows
        lags = fault.hits % max(1, int(fault.options.get("every", 1))) == 0
        return max(0, rows - int(fault.options.get("rows", 1))) if lags else rows

    def shown_from(self, method: str, path: str, user_agent: str) -> tuple[float, float]:
        """Return the times from which a run that starts now is shown in lists, and by its id."""
        fault = self.first({"late_runs"}, method, path, user_agent)
        seconds = 0.0 if fault is None else float(fault.options.get("seconds", 5))
        listed_at = now() + seconds
        return listed_at, listed_at if fault is not None and fault.options.get("detail") else 0.0


class FaultMiddleware:
    """Middleware that applies the faults. It must be outermost, so that `send` writes to the connection."""

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        path, fault = scope.get("path", ""), None
        if scope["type"] == "http" and not path.startswith("/sandbox/"):
            user_agent = Headers(scope=scope).get("user-agent", "")
            fault = self._faults.first(REQUEST_ACTIONS, scope["method"], path, user_agent)
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await self._act(fault, scope, receive, send)

    async def _act(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        match fault.action:
            case "status":
                await _error_application(fault)(scope, receive, send)
            case "replace":
                body = str(fault.options.get("body", ""))
                await Response(body, media_type="application/json; charset=utf-8")(scope, receive, send)
            case "delay":
                await asyncio.sleep(float(fault.options.get("seconds", 1)))
                await self._app(scope, receive, send)
            case "hang":
                await _hang(receive)
            case "drop_before":
                await _read_body(receive)
                _transport(send).abort()
            case "drop_after":
                await self._collect(scope, receive)
                _transport(send).abort()
            case "delay_after":
                messages = await self._collect(scope, receive)
                await asyncio.sleep(float(fault.options.get("seconds", 1)))
                for message in messages:
                    await send(message)
            case "status_after":
                await self._collect(scope, receive)
                await _error_application(fault)(scope, receive, send)
            case _:
                await self._truncate(scope, receive, send)

    async def _collect(self, scope: Scope, receive: Receive) -> list[Message]:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        return messages

    async def _truncate(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, *rest = await self._collect(scope, receive)
        body = b"".join(message.get("body", b"") for message in rest)
        await send(start)
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        _transport(send).close()


def _error_application(fault: Fault) -> ASGIApp:
    status = int(fault.options.get("status", 503))
    error_type = str(fault.options.get("type", _ERROR_TYPES.get(status, "internal-server-error")))
    message = str(fault.options.get("message", "An injected fault"))
    headers = cast("dict[str, str]", fault.options.get("headers") or {})
    return error_response(status, error_type, message, {key: str(value) for key, value in headers.items()})


async def _read_body(receive: Receive) -> None:
    while (await receive()).get("more_body"):
        pass


async def _hang(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _transport(send: Send) -> asyncio.Transport:
    """Return the connection: uvicorn passes the outermost application the bound method of its request cycle."""
    return cast("asyncio.Transport", cast("Any", send).__self__.transport)


class Counters:
    """Counters of runs, and of requests by method, route and status."""

    def __init__(self, database: Database, runs: Runs) -> None:
        self._database = database
        self._runs = runs
        self._requests: Counter[tuple[str, str, int]] = Counter()

    def count_request(self, method: str, path: str, status: int) -> None:
        """Count a response of the application, as it was before a fault changed it."""
        route = _IDS.sub(":id", re.sub(r"(?<=/records/).+", ":key", path))
        self._requests[method, route, status] += 1

    def report(self) -> JsonObject:
        """Return all counters. Runs are counted in the database, so restarts and deletions do not reset them."""
        by_actor = self._database.rows(
            "SELECT json_extract(CAST(document AS TEXT), '$.actor_name') AS actor, count(*) AS starts FROM runs"
            " WHERE json_valid(CAST(document AS TEXT))"
            " GROUP BY 1"
        )
        by_status = self._database.rows("SELECT status, count(*) AS runs FROM runs GROUP BY 1")
        aborts = self._database.row("SELECT total(abort_requested), count(nullif(abort_requested, 0)) FROM runs")
        operations: defaultdict[str, list[str]] = defaultdict(list)
        for row in self._database.rows("SELECT operation, id FROM runs WHERE operation IS NOT NULL ORDER BY sequence"):
            operations[row["operation"]].append(row["id"])
        return {
            "startsAccepted": self._database.number("SELECT count(*) FROM runs"),
            "startsByActor": {row["actor"]: row["starts"] for row in by_actor},
            "runsByStatus": {row["status"]: row["runs"] for row in by_status},
            "operations": dict(operations),
            "abortsRequested": 0 if aborts is None else int(aborts[0]),
            "runsWithAbort": 0 if aborts is None else int(aborts[1]),
            "runningNow": sorted(run.id for run in self._runs.open),
            "requests": [
                {"method": method, "route": route, "status": status, "count": count}
                for (method, route, status), count in sorted(self._requests.items())
            ],
        }


class CountingMiddleware:
    """Middleware that counts every response of the API."""

    def __init__(self, app: ASGIApp, counters: Counters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not path.startswith("/v2/"):
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counters.count_request(scope["method"], path, message["status"])
            await send(message)

        await self._app(scope, receive, counted)
