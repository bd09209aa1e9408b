"""Routes of users, their limits, and webhook dispatches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.formats import iso, not_found
from outlast.deploy.local.sandbox.http.query import data_response, response_with_page_of
from outlast.deploy.local.sandbox.platform import Platform

_UNLIMITED = (
    "maxMonthlyUsageUsd", "maxMonthlyActorComputeUnits", "maxMonthlyExternalDataTransferGbytes", "maxActorCount",
    "maxActorTaskCount", "dataRetentionDays",
)  # fmt: skip
_UNUSED = (
    "monthlyUsageUsd", "monthlyActorComputeUnits", "monthlyExternalDataTransferGbytes", "monthlyResidentialProxyGbytes",
)  # fmt: skip


class UserRoutes:
    """`/users` and `/webhook-dispatches`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        return [
            Route("/v2/users/me", self._me, methods=["GET"]),
            Route("/v2/users/me/limits", self._limits, methods=["GET"]),
            Route("/v2/users/{user_id}", self._get, methods=["GET"]),
            Route("/v2/webhook-dispatches", self._dispatches, methods=["GET"]),
            Route("/v2/webhook-dispatches/{dispatch_id}", self._dispatch, methods=["GET"]),
        ]

    async def _me(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        limits = self._platform.limits
        return data_response(
            {
                "id": user.id,
                "username": user.username,
                "profile": {"name": user.username},
                "email": f"{user.username}@sandbox.example.com",
                "proxy": {"password": f"proxyPasswordOf_{user.username}_0123456789", "groups": []},
                "plan": {
                    "id": "SANDBOX",
                    "tier": self._platform.users.tier(user.id),
                    "description": "A sandbox on this machine",
                    "isEnabled": True,
                    "monthlyBasePriceUsd": 0.0,
                    "maxActorMemoryGbytes": limits.memory_mbytes / 1024,
                    "maxConcurrentActorRuns": limits.concurrent_runs,
                    "availableProxyGroups": {},
                },
                "createdAt": iso(user.created_at),
                "isPaying": False,
            }
        )

    async def _get(self, request: Request) -> Response:
        reference = request.path_params["user_id"]
        row = self._platform.database.row(
            "SELECT username FROM users WHERE id = ? OR username = ?", (reference, reference)
        )
        if row is None:
            raise not_found("User")
        return data_response({"username": row["username"], "profile": {"name": row["username"]}})

    async def _limits(self, request: Request) -> Response:
        platform = self._platform
        user = platform.users.caller(request)
        own = [run for run in platform.runs.open if run.user_id == user.id]
        start = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = (start + timedelta(days=32)).replace(day=1)
        return data_response(
            {
                "monthlyUsageCycle": {"startAt": iso(start.timestamp()), "endAt": iso(end.timestamp())},
                "limits": {
                    **dict.fromkeys(_UNLIMITED, 1_000_000),
                    "maxMonthlyProxySerps": 0,
                    "maxMonthlyResidentialProxyGbytes": 0,
                    "maxActorMemoryGbytes": platform.limits.memory_mbytes / 1024,
                    "maxConcurrentActorJobs": platform.limits.concurrent_runs,
                    "maxTeamAccountSeatCount": 1,
                },
                "current": {
                    **dict.fromkeys(_UNUSED, 0.0),
                    "monthlyProxySerps": 0,
                    "actorMemoryGbytes": sum(run.memory_mbytes for run in own) / 1024,
                    "actorCount": len(platform.catalogue.all()),
                    "actorTaskCount": 0,
                    "activeActorJobCount": len(own),
                    "teamAccountSeatCount": 1,
                },
            }
        )

    async def _dispatches(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        return response_with_page_of(request, self._platform.webhooks.dispatches(user.id))

    async def _dispatch(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        return data_response(self._platform.webhooks.dispatch(request.path_params["dispatch_id"], user.id))
