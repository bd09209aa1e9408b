"""Routes of Actors, their builds, and the Store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.actors import Actor, is_visible, prepared_input
from outlast.deploy.local.sandbox.formats import JsonObject, derived_id, iso, not_found
from outlast.deploy.local.sandbox.http import query
from outlast.deploy.local.sandbox.http.query import data_response, flag, json_response, response_with_page_of
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.runs import pricing_info


class ActorRoutes:
    """`/acts` (also as `/actors`), `/actor-builds`, `/store`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        found = [
            Route("/v2/store", self._store, methods=["GET"]),
            Route("/v2/actor-builds/{build_id}", self._build, methods=["GET"]),
            Route("/v2/actor-builds/{build_id}/log", self._build_log, methods=["GET"]),
            Route("/v2/actor-builds/{build_id}/openapi.json", self._openapi, methods=["GET"]),
        ]
        for prefix in ("/v2/acts", "/v2/actors"):
            one = f"{prefix}/{{actor_id}}"
            found += [
                Route(prefix, self._list, methods=["GET"]),
                Route(f"{prefix}/", self._list, methods=["GET"]),
                Route(one, self._get, methods=["GET"]),
                Route(f"{one}/builds", self._builds, methods=["GET"]),
                Route(f"{one}/builds/default", self._default_build, methods=["GET"]),
                Route(f"{one}/builds/{{build_id}}", self._build, methods=["GET"]),
                Route(f"{one}/versions", self._versions, methods=["GET"]),
                Route(f"{one}/versions/{{version}}", self._version, methods=["GET"]),
                Route(f"{one}/validate-input", self._validate_input, methods=["POST"]),
            ]
        return found

    def _actor(self, request: Request) -> Actor:
        user = self._platform.users.caller_or_none(request)
        return self._platform.catalogue.find(request.path_params["actor_id"], user)

    async def _list(self, request: Request) -> Response:
        """List the Actors that the user owns or has used."""
        user = self._platform.users.caller(request)
        used = {
            row["actor_id"]
            for row in self._platform.database.rows("SELECT DISTINCT actor_id FROM runs WHERE user_id = ?", (user.id,))
        }
        only_own = flag(request, "my")
        chosen = [
            actor
            for actor in self._platform.catalogue.all()
            if actor.username == user.username or (actor.id in used and not only_own)
        ]
        return query.response_with_page_of(request, [self._list_item(actor) for actor in chosen])

    async def _get(self, request: Request) -> Response:
        actor = self._actor(request)
        return data_response(
            {
                **self._list_item(actor),
                "userId": derived_id("user", actor.username),
                "description": actor.description,
                "isPublic": actor.is_public,
                "isDeprecated": False,
                "versions": [_version(actor)],
                "defaultRunOptions": {
                    "build": actor.build_tag,
                    "timeoutSecs": actor.default_timeout_seconds,
                    "memoryMbytes": actor.default_memory_mbytes,
                    "restartOnError": False,
                },
                "exampleRunInput": {
                    "body": orjson.dumps(_example_input(actor)).decode(),
                    "contentType": "application/json; charset=utf-8",
                },
                "taggedBuilds": {actor.build_tag: _tagged_build(actor)},
                "readmeSummary": actor.description,
                "categories": ["DEVELOPER_TOOLS"],
                "pricingInfos": [info] if (info := _pricing(actor)) else [],
                "isSourceCodeHidden": False,
                **({"actorStandby": {"isEnabled": True}} if actor.definition.get("usesStandbyMode") else {}),
            }
        )

    async def _builds(self, request: Request) -> Response:
        actor = self._actor(request)
        build = _build(actor)
        keys = ("id", "actId", "userId", "status", "startedAt", "finishedAt", "usageTotalUsd", "buildNumber", "meta")
        page = query.Page(0, query.MAX_PAGE, flag(request, "desc"))
        return query.page_response([{key: build[key] for key in keys}], 1, page)

    async def _default_build(self, request: Request) -> Response:
        return data_response(_build(self._actor(request)))

    async def _build(self, request: Request) -> Response:
        return data_response(_build(self._built_actor(request)))

    async def _build_log(self, request: Request) -> Response:
        actor = self._built_actor(request)
        return Response(
            f"{iso(actor.modified_at)} Taken from an Actor folder; nothing to build.\n", media_type="text/plain"
        )

    async def _openapi(self, request: Request) -> Response:
        actor = self._built_actor(request)
        path = f"/acts/{actor.username}~{actor.name}/runs"
        body = {"content": {"application/json": {"schema": actor.input_schema or {"type": "object"}}}}
        operation = {
            "operationId": f"runs-{actor.name}",
            "requestBody": body,
            "responses": {"201": {"description": "Started"}},
        }
        return json_response(
            {
                "openapi": "3.0.1",
                "info": {"title": actor.title, "version": actor.version, "description": actor.description},
                "servers": [{"url": f"{self._platform.settings.base_url}/v2"}],
                "paths": {path: {"post": operation}},
            }
        )

    def _built_actor(self, request: Request) -> Actor:
        user = self._platform.users.caller_or_none(request)
        actor = self._platform.catalogue.by_build(request.path_params["build_id"])
        if actor is None or not is_visible(actor, user):
            raise not_found("Build")
        return actor

    async def _versions(self, request: Request) -> Response:
        return data_response({"total": 1, "items": [_version(self._actor(request))]})

    async def _version(self, request: Request) -> Response:
        actor = self._actor(request)
        if request.path_params["version"] != actor.version:
            raise not_found("Actor version")
        return data_response(_version(actor))

    async def _validate_input(self, request: Request) -> Response:
        actor = self._actor(request)
        prepared_input(actor.input_schema, await query.body_bytes(request), request.headers.get("content-type", ""))
        return json_response({"valid": True})

    async def _store(self, request: Request) -> Response:
        """Search in titles, names, descriptions and READMEs. Every word must occur."""
        words = request.query_params.get("search", "").lower().split()
        username = request.query_params.get("username")
        found = [
            actor
            for actor in self._platform.catalogue.all()
            if actor.is_public and username in {None, actor.username} and all(word in _text(actor) for word in words)
        ]
        if flag(request, "allowsAgenticUsers"):  # Payments that come with requests do not pay for standby.
            found = [actor for actor in found if not actor.definition.get("usesStandbyMode")]
        found.sort(key=lambda actor: (-_score(actor, words), actor.full_name))
        page, with_input = query.page_of(request)._replace(desc=False), flag(request, "includeInputSchema")
        shown = found[page.offset : page.offset + page.limit]
        items = [self._store_item(actor, with_input=with_input) for actor in shown]
        return query.page_response(items, len(found), page)

    def _store_item(self, actor: Actor, *, with_input: bool) -> JsonObject:
        return {
            **self._list_item(actor),
            "userFullName": actor.username.capitalize(),
            "description": actor.description,
            "categories": ["DEVELOPER_TOOLS"],
            "url": f"{self._platform.settings.base_url}/v2/acts/{actor.username}~{actor.name}",
            "currentPricingInfo": _pricing(actor) or {"pricingModel": "FREE"},
            "readmeSummary": actor.description,
            **({"inputSchema": _short_schema(actor)} if with_input else {}),
        }

    def _list_item(self, actor: Actor) -> JsonObject:
        row = self._platform.database.row(
            "SELECT count(*) AS runs, count(DISTINCT user_id) AS users, max(started_at) AS last FROM runs"
            " WHERE actor_id = ?",
            (actor.id,),
        )
        runs, users, last = (0, 0, None) if row is None else (row["runs"], row["users"], row["last"])
        return {
            "id": actor.id,
            "name": actor.name,
            "username": actor.username,
            "title": actor.title,
            **({"pictureUrl": actor.picture_url} if actor.picture_url else {}),
            "createdAt": iso(actor.modified_at),
            "modifiedAt": iso(actor.modified_at),
            "stats": {
                "totalBuilds": 1,
                "totalRuns": runs,
                **dict.fromkeys(("totalUsers", "totalUsers7Days", "totalUsers30Days", "totalUsers90Days"), users),
                "totalMetamorphs": 0,
                "lastRunStartedAt": None if last is None else iso(last),
            },
        }


def _text(actor: Actor) -> str:
    return f"{actor.full_name} {actor.title} {actor.description} {actor.definition['readme']}".lower()


def _score(actor: Actor, words: list[str]) -> int:
    return sum(word in f"{actor.full_name} {actor.title}".lower() for word in words)


def _example_input(actor: Actor) -> JsonObject:
    properties: JsonObject = (actor.input_schema or {}).get("properties") or {}
    return {
        name: definition.get("prefill", definition.get("default"))
        for name, definition in properties.items()
        if "prefill" in definition or "default" in definition
    }


def _pricing(actor: Actor) -> JsonObject | None:
    """Return the Actor's prices in the API's form, None for a free one."""
    if actor.pricing is None:
        return pricing_info(actor.price_per_event, actor.modified_at)
    since = iso(actor.modified_at)
    return {"apifyMarginPercentage": 0.0, "createdAt": since, "startedAt": since, **actor.pricing}


def _short_schema(actor: Actor) -> JsonObject:
    """Return the fields of the Actor's input with their types only, as the Store lists them."""
    schema = actor.input_schema or {}
    properties: JsonObject = schema.get("properties") or {}
    short: JsonObject = {name: {"type": field.get("type", "string")} for name, field in properties.items()}
    return {"type": "object", "properties": short, "required": schema.get("required") or []}


def _version(actor: Actor) -> JsonObject:
    return {
        "versionNumber": actor.version,
        "sourceType": "SOURCE_FILES",
        "envVars": [],
        "applyEnvVarsToBuild": False,
        "buildTag": actor.build_tag,
        "sourceFiles": [],
    }


def _tagged_build(actor: Actor) -> JsonObject:
    return {"buildId": actor.build_id, "buildNumber": actor.build_number, "finishedAt": iso(actor.modified_at)}


def _build(actor: Actor) -> JsonObject:
    return {
        "id": actor.build_id,
        "actId": actor.id,
        "userId": derived_id("user", actor.username),
        "startedAt": iso(actor.modified_at),
        "finishedAt": iso(actor.modified_at),
        "status": "SUCCEEDED",
        "meta": {"origin": "DEVELOPMENT"},
        "stats": {"durationMillis": 0, "runTimeSecs": 0.0, "computeUnits": 0.0},
        "options": {"useCache": False, "betaPackages": False, "memoryMbytes": 1024},
        "usageTotalUsd": 0.0,
        "buildNumber": actor.build_number,
        "inputSchema": None if actor.input_schema is None else orjson.dumps(actor.input_schema).decode(),
        "readme": actor.definition["readme"],
        "actorDefinition": actor.definition,
    }


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
