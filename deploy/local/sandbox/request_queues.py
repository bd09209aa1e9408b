"""Request queues, as far as clients and the SDK's crawlers use them: requests, the head, and locks."""

from __future__ import annotations

import base64
import hashlib
import re
import sqlite3

import orjson

from outlast.deploy.local.sandbox.database import DAMAGED, Database, document_of
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, invalid_parameter, iso, not_found, now


def request_id_of(unique_key: str) -> str:
    """Return the request ID by the platform's rule, on which the SDK relies: 15 safe characters of the key's hash."""
    digest = base64.b64encode(hashlib.sha256(unique_key.encode()).digest()).decode()
    return re.sub(r"[+/=]", "", digest)[:15]


class RequestQueues:
    """Requests of all queues."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, queue_id: str, request: JsonObject, forefront: bool) -> JsonObject:
        """Add a request unless its unique key is known. Return the operation's result as in the API."""
        unique_key = str(request.get("uniqueKey") or request.get("url") or "")
        if not unique_key or not request.get("url"):
            raise ApiError(400, "invalid-request", "A request needs 'url' and 'uniqueKey'")
        request_id = request_id_of(unique_key)
        known = self._row(queue_id, request_id)
        if known is None:
            self._insert(queue_id, {**request, "id": request_id, "uniqueKey": unique_key}, forefront)
        return {
            "requestId": request_id,
            "uniqueKey": unique_key,
            "wasAlreadyPresent": known is not None,
            "wasAlreadyHandled": bool(known and known["handled"]),
        }

    def add_many(self, queue_id: str, requests: list[JsonObject], forefront: bool) -> JsonObject:
        """Add a batch of requests. The result lists the requests that could not be added."""
        processed: list[JsonObject] = []
        unprocessed: list[JsonObject] = []
        with self._database.transaction():
            for request in requests:
                try:
                    processed.append(self.add(queue_id, request, forefront))
                except ApiError:
                    unprocessed.append({"uniqueKey": request.get("uniqueKey", ""), "url": request.get("url", "")})
        return {"processedRequests": processed, "unprocessedRequests": unprocessed}

    def update(self, queue_id: str, request: JsonObject, forefront: bool) -> JsonObject:
        """Replace or add a request. With `handledAt` the request leaves the queue's head."""
        unique_key = str(request.get("uniqueKey", ""))
        request_id = str(request.get("id") or request_id_of(unique_key))
        known = self._row(queue_id, request_id)
        with self._database.transaction():
            if known is not None:
                self._database.run("DELETE FROM requests WHERE queue_id = ? AND id = ?", (queue_id, request_id))
            self._insert(queue_id, {**request, "id": request_id}, forefront)
        return {
            "requestId": request_id,
            "wasAlreadyPresent": known is not None,
            "wasAlreadyHandled": bool(known and known["handled"]),
        }

    def get(self, queue_id: str, request_id: str) -> JsonObject:
        """Return one request. Raises `ApiError` 404."""
        row = self._row(queue_id, request_id)
        if row is None:
            raise not_found("Request")
        return _request(row)

    def delete(self, queue_id: str, request_id: str) -> bool:
        """Remove a request. Return whether it existed."""
        return self._database.run("DELETE FROM requests WHERE queue_id = ? AND id = ?", (queue_id, request_id)) > 0

    def head(self, queue_id: str, limit: int) -> list[JsonObject]:
        """Return the first pending requests, locked or not."""
        rows = self._database.rows(
            "SELECT * FROM requests WHERE queue_id = ? AND handled = 0 ORDER BY position LIMIT ?",
            (queue_id, limit),
        )
        return [_head_item(document) for document in map(_whole, rows) if document is not None]

    def lock_head(self, queue_id: str, limit: int, lock_seconds: int, client_key: str) -> list[JsonObject]:
        """Lock the first pending requests without a lock for this client and return them."""
        moment = now()
        until = moment + lock_seconds
        with self._database.transaction():
            rows = self._database.rows(
                "SELECT * FROM requests WHERE queue_id = ? AND handled = 0"
                " AND (locked_until IS NULL OR locked_until < ?) ORDER BY position LIMIT ?",
                (queue_id, moment, limit),
            )
            for row in rows:
                self._database.run(
                    "UPDATE requests SET locked_until = ?, locked_by = ? WHERE queue_id = ? AND id = ?",
                    (until, client_key, queue_id, row["id"]),
                )
        found = [document for document in map(_whole, rows) if document is not None]
        return [{**_head_item(document), "lockExpiresAt": iso(until)} for document in found]

    def prolong_lock(
        self, queue_id: str, request_id: str, lock_seconds: int, client_key: str, forefront: bool
    ) -> float:
        """Prolong the lock of a request and return its end. Raises `ApiError` 404 or 409."""
        self._check_lock(queue_id, request_id, client_key)
        until = now() + lock_seconds
        self._database.run(
            "UPDATE requests SET locked_until = ?, locked_by = ?, position = ? WHERE queue_id = ? AND id = ?",
            (until, client_key, self._position(queue_id, forefront), queue_id, request_id),
        )
        return until

    def release_lock(self, queue_id: str, request_id: str, client_key: str, forefront: bool) -> None:
        """Release the lock of a request. Raises `ApiError` 404 or 409."""
        self._check_lock(queue_id, request_id, client_key)
        self._database.run(
            "UPDATE requests SET locked_until = NULL, locked_by = NULL, position = ? WHERE queue_id = ? AND id = ?",
            (self._position(queue_id, forefront), queue_id, request_id),
        )

    def release_all(self, queue_id: str, client_key: str) -> int:
        """Release all locks of this client and return their number."""
        return self._database.run(
            "UPDATE requests SET locked_until = NULL, locked_by = NULL WHERE queue_id = ? AND locked_by = ?",
            (queue_id, client_key),
        )

    def list(self, queue_id: str, after: str, limit: int, states: list[str]) -> list[JsonObject]:
        """Return requests after the ID `after`, sorted by ID."""
        if not set(states) <= {"pending", "locked"}:
            raise invalid_parameter("Query parameter 'filter' takes 'pending' and 'locked'")
        conditions = {"pending": "handled = 0", "locked": f"locked_until > {now():.3f}"}
        chosen = " OR ".join(conditions[state] for state in states) or "1"
        rows = self._database.rows(
            f"SELECT * FROM requests WHERE queue_id = ? AND id > ? AND ({chosen}) ORDER BY id LIMIT ?",  # noqa: S608 (constants)
            (queue_id, after, limit),
        )
        return [_request(row) for row in rows]

    def counts(self, queue_id: str) -> tuple[int, int]:
        """Return the number of requests and of handled requests."""
        row = self._database.row("SELECT count(*), total(handled) FROM requests WHERE queue_id = ?", (queue_id,))
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def has_locks(self, queue_id: str) -> bool:
        """Return whether a pending request is locked."""
        statement = "SELECT count(*) FROM requests WHERE queue_id = ? AND handled = 0 AND locked_until > ?"
        return self._database.number(statement, (queue_id, now())) > 0

    def add_client(self, queue_id: str, client_key: str) -> None:
        """Record a client, for `hadMultipleClients`."""
        if client_key:
            self._database.run("INSERT OR IGNORE INTO queue_clients VALUES (?, ?)", (queue_id, client_key))

    def had_multiple_clients(self, queue_id: str) -> bool:
        """Return whether more than one client key was seen."""
        return self._database.number("SELECT count(*) FROM queue_clients WHERE queue_id = ?", (queue_id,)) > 1

    def remove(self, queue_id: str) -> None:
        """Delete all requests."""
        self._database.run("DELETE FROM requests WHERE queue_id = ?", (queue_id,))
        self._database.run("DELETE FROM queue_clients WHERE queue_id = ?", (queue_id,))

    def _insert(self, queue_id: str, request: JsonObject, forefront: bool) -> None:
        handled, position = int(bool(request.get("handledAt"))), self._position(queue_id, forefront)
        self._database.run(
            "INSERT INTO requests (queue_id, id, unique_key, position, handled, document) VALUES (?, ?, ?, ?, ?, ?)",
            (queue_id, request["id"], str(request.get("uniqueKey", "")), position, handled, orjson.dumps(request)),
        )

    def _position(self, queue_id: str, forefront: bool) -> int:
        edge = "min(position) - 1" if forefront else "max(position) + 1"
        return self._database.number(f"SELECT {edge} FROM requests WHERE queue_id = ? AND handled = 0", (queue_id,))  # noqa: S608 (constants)

    def _row(self, queue_id: str, request_id: str) -> sqlite3.Row | None:
        return self._database.row("SELECT * FROM requests WHERE queue_id = ? AND id = ?", (queue_id, request_id))

    def _check_lock(self, queue_id: str, request_id: str, client_key: str) -> None:
        row = self._row(queue_id, request_id)
        if row is None:
            raise not_found("Request")
        held_by_another = row["locked_by"] not in {None, client_key} and (row["locked_until"] or 0) > now()
        if held_by_another:
            raise ApiError(409, "request-lock-conflict", "The request is locked by another client")


def _request(row: sqlite3.Row) -> JsonObject:
    """Return a request; a damaged one has only the values of its columns."""
    return _whole(row) or {"id": row["id"], "uniqueKey": row["unique_key"], "errorMessages": [DAMAGED]}


def _whole(row: sqlite3.Row) -> JsonObject | None:
    """Return a request that can be handled, None for a damaged one."""
    document = document_of(row)
    return document if document is not None and {"id", "url"} <= document.keys() else None


def _head_item(request: JsonObject) -> JsonObject:
    keys = ("id", "uniqueKey", "url", "method", "retryCount")
    return {key: request[key] for key in keys if request.get(key) is not None}
