"""Counters for tests: requests are counted in memory, runs in the database."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.runs.run_table import Runs

_IDS = re.compile(r"(?<=/)(?:[A-Za-z0-9]{17}|[a-z0-9-]+~[a-z0-9-]+)(?=/|$)")


class Counters:
    """Requests by method, route and status."""

    def __init__(self, database: Database, runs: Runs) -> None:
        self._database = database
        self._runs = runs
        self._requests: Counter[tuple[str, str, int]] = Counter()

    def count_request(self, method: str, path: str, status: int) -> None:
        """Counts a response of the application, as it was before any fault changed it."""
        route = _IDS.sub(":id", re.sub(r"(?<=/records/).+", ":key", path))
        self._requests[method, route, status] += 1

    def report(self) -> JsonObject:
        """All counters. Runs are counted in the database, so restarts and deletions do not reset them."""
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
    """Counts every response of the API."""

    def __init__(self, app: ASGIApp, counters: Counters) -> None:
        self._app = app
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not path.startswith("/v2/"):
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counters.count_request(scope["method"], path, message["status"])
            await send(message)

        await self._app(scope, receive, counted)
