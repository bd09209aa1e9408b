"""Ad-hoc webhooks: POST requests, retried with increasing pauses, also across restarts of the sandbox."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import re
import sqlite3
from contextlib import suppress
from typing import Any, cast

import orjson

from outlast.deploy.local.sandbox.database import Database, document_of
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, invalid_parameter, iso, new_id, not_found, now
from outlast.deploy.local.sandbox.runs import Run, Runs
from outlast.deploy.local.sandbox.settings import Settings

logger = logging.getLogger(__name__)

_VARIABLE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")


class Webhooks:
    """Webhooks of runs, and deliveries of their events."""

    def __init__(self, settings: Settings, database: Database, runs: Runs) -> None:
        self._settings = settings
        self._database = database
        self._runs = runs
        self._deliveries: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Resume deliveries that were open when the sandbox last ended."""
        for row in self._database.rows("SELECT id FROM dispatches WHERE status IN ('ACTIVE', 'RETRYING')"):
            self._deliver_soon(row["id"])

    async def end(self) -> None:
        """Stop delivering. Open dispatches stay in the database."""
        for delivery in list(self._deliveries):
            delivery.cancel()

    def add(self, run: Run, webhooks: list[JsonObject]) -> None:
        """Attach webhooks to a run."""
        for webhook in webhooks:
            self._database.run(
                "INSERT INTO webhooks (id, user_id, run_id, created_at, document) VALUES (?, ?, ?, ?, ?)",
                (new_id(), run.user_id, run.id, now(), orjson.dumps(webhook)),
            )

    def emit(self, run: Run, event_type: str) -> None:
        """Create a dispatch for each of the run's webhooks that subscribes to this event."""
        for row in self._database.rows("SELECT * FROM webhooks WHERE run_id = ?", (run.id,)):
            webhook = document_of(row)
            if webhook is None or event_type not in webhook.get("eventTypes", ()):
                continue
            dispatch: JsonObject = {
                "id": new_id(),
                "userId": run.user_id,
                "webhookId": row["id"],
                "createdAt": iso(now()),
                "eventType": event_type,
                "eventData": {"actorId": run.actor_id, "actorRunId": run.id},
                "resource": self._runs.details(run),
                "calls": [],
            }
            self._save(dispatch, "ACTIVE")
            self._deliver_soon(dispatch["id"])

    def dispatches(self, user_id: str) -> list[JsonObject]:
        """Return all dispatches of a user."""
        rows = self._database.rows("SELECT * FROM dispatches WHERE user_id = ? ORDER BY created_at, rowid", (user_id,))
        return [_shown(row) for row in rows]

    def dispatch(self, dispatch_id: str, user_id: str) -> JsonObject:
        """Return one dispatch. Raises `ApiError` 404."""
        row = self._database.row("SELECT * FROM dispatches WHERE id = ? AND user_id = ?", (dispatch_id, user_id))
        if row is None:
            raise not_found("Webhook dispatch")
        return _shown(row)

    def _save(self, dispatch: JsonObject, status: str) -> None:
        self._database.run(
            "INSERT INTO dispatches (id, webhook_id, user_id, event_type, created_at, status, document)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET status = excluded.status, document = excluded.document",
            (
                dispatch["id"], dispatch["webhookId"], dispatch["userId"], dispatch["eventType"], now(), status,
                orjson.dumps(dispatch),
            ),
        )  # fmt: skip

    def _deliver_soon(self, dispatch_id: str) -> None:
        delivery = asyncio.create_task(self._deliver(dispatch_id))
        self._deliveries.add(delivery)
        delivery.add_done_callback(self._deliveries.discard)

    async def _deliver(self, dispatch_id: str) -> None:
        row = self._database.row(
            "SELECT dispatches.document AS dispatch, webhooks.document AS webhook FROM dispatches"
            " JOIN webhooks ON webhooks.id = webhook_id WHERE dispatches.id = ?",
            (dispatch_id,),
        )
        if row is None:
            return
        dispatch, webhook = document_of(row, "dispatch"), document_of(row, "webhook")
        if dispatch is None or webhook is None:
            return
        attempts = 1 if webhook.get("doNotRetry") else self._settings.webhook_attempts
        while True:
            call = await self._call(webhook, dispatch)
            dispatch["calls"].append(call)
            if 200 <= (call["responseStatus"] or 0) < 300:
                self._save(dispatch, "SUCCEEDED")
                return
            if len(dispatch["calls"]) >= attempts:
                self._save(dispatch, "FAILED")
                logger.warning("webhook dispatch %s failed and is not retried", dispatch_id)
                return
            self._save(dispatch, "RETRYING")
            await asyncio.sleep(self._settings.webhook_retry_seconds * 2 ** (len(dispatch["calls"]) - 1))

    async def _call(self, webhook: JsonObject, dispatch: JsonObject) -> JsonObject:
        import httpx  # noqa: PLC0415 (rarely needed: the sandbox starts sooner)

        started_at = now()
        status, body, problem = None, None, None
        try:
            async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
                response = await client.post(
                    webhook["requestUrl"], content=_payload(webhook, dispatch), headers=_headers(webhook, dispatch)
                )
            status, body = response.status_code, response.text[:1000]
        except httpx.HTTPError as error:
            problem = f"{type(error).__name__}: {error}"
        return {
            "startedAt": iso(started_at),
            "finishedAt": iso(now()),
            "errorMessage": problem,
            "responseStatus": status,
            "responseBody": body,
        }


def _shown(row: sqlite3.Row) -> JsonObject:
    """Return a dispatch as in the API; a damaged one has only the values of its columns."""
    known = {"id": row["id"], "webhookId": row["webhook_id"], "userId": row["user_id"], "eventType": row["event_type"]}
    dispatch = document_of(row) or {**known, "createdAt": iso(row["created_at"]), "calls": []}
    return {key: value for key, value in dispatch.items() if key != "resource"} | {"status": row["status"]}


def parse_webhooks(encoded: str | None) -> list[JsonObject]:
    """Parse the `webhooks` parameter of a start: base64 of a JSON list. Raises `ApiError` 400."""
    if not encoded:
        return []
    try:
        webhooks: object = orjson.loads(base64.b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (binascii.Error, orjson.JSONDecodeError, ValueError) as error:
        raise invalid_parameter("Query parameter 'webhooks' must be base64-encoded JSON") from error
    if not isinstance(webhooks, list):
        raise invalid_parameter("Query parameter 'webhooks' must hold a list")
    checked = cast("list[JsonObject]", webhooks)
    for webhook in checked:
        if not str(webhook.get("requestUrl", "")).startswith(("http://", "https://")) or not webhook.get("eventTypes"):
            raise ApiError(400, "invalid-input", "A webhook needs 'eventTypes' and an http(s) 'requestUrl'")
    return checked


def _variables(dispatch: JsonObject) -> JsonObject:
    names = ("userId", "createdAt", "eventType", "eventData", "resource")
    return {name: dispatch[name] for name in names} | {"globals": {"dateISO": dispatch["createdAt"]}}


def _payload(webhook: JsonObject, dispatch: JsonObject) -> bytes:
    variables = _variables(dispatch)
    template = webhook.get("payloadTemplate")
    if not template:
        return orjson.dumps(variables)
    return _VARIABLE.sub(lambda found: orjson.dumps(_lookup(variables, found.group(1))).decode(), template).encode()


def _lookup(variables: JsonObject, path: str) -> object:
    value: Any = variables
    for part in path.split("."):
        value = cast("JsonObject", value).get(part) if isinstance(value, dict) else None
    return value


def _headers(webhook: JsonObject, dispatch: JsonObject) -> dict[str, str]:
    extra: object = {}
    if webhook.get("headersTemplate"):
        variables = _variables(dispatch)
        filled = _VARIABLE.sub(lambda found: str(_lookup(variables, found.group(1))), webhook["headersTemplate"])
        with suppress(orjson.JSONDecodeError):
            extra = orjson.loads(filled)
    headers = cast("JsonObject", extra) if isinstance(extra, dict) else {}
    return {
        **{str(key): str(value) for key, value in headers.items()},
        "Content-Type": "application/json",
        "X-Apify-Webhook": "true",
        "X-Apify-Webhook-Dispatch-Id": dispatch["id"],
    }
