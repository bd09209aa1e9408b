"""One request to the server and its answer, without what differs from one run to the next: ids, times, sizes."""

import json
import re
from typing import Any

import httpx

Json = Any
Exchange = dict[str, Json]
"""`name`, `request` (method, path, headers, json), `save` (placeholder: path into the answer), and once recorded
`status`, `content_type` and `body`."""

_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)"), "TIME"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://HOST"),
    (re.compile(r"\b[A-Za-z0-9-]+-[0-9a-f]{20,32}\b"), "TASK"),
    (re.compile(r"\b(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{17}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{16,64}\b"), "DIGEST"),
    (re.compile(r"\b\d+(?:\.\d+)? (seconds|bytes|ms|US dollars)\b"), r"N \1"),
)
_VOLATILE_KEYS = frozenset(
    {"stats", "usage_total_usd", "usageTotalUsd", "ttl", "ttlMs", "fingerprint", "expires_at", "next_page_token"}
)
_OUTPUT_SCHEMAS = ("output_schema", "outputSchema")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def plain(value: Json) -> Json:
    """`value` with marks for what is never the same twice."""
    if isinstance(value, dict):
        return {plain(key): "ANY" if key in _VOLATILE_KEYS else plain(part) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if not isinstance(value, str):
        return value
    for pattern, mark in _VOLATILE:
        value = pattern.sub(mark, value)
    return value


class Caller:
    """Asks one server, and remembers what later requests name."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.saved: dict[str, str] = {}

    def ask(self, exchange: Exchange) -> Exchange:
        """The exchange with this server's answer."""
        request = self._filled(exchange["request"])
        with self._http.stream(
            request["method"], request["path"], headers=request.get("headers", {}), json=request.get("json")
        ) as response:
            if "mcp-session-id" in response.headers:
                self.saved["mcp_session"] = response.headers["mcp-session-id"]
            response.read()
        body = _body_of(response)
        for name, path in exchange.get("save", {}).items():
            self.saved[name] = _at(body, path)
        content_type = response.headers.get("content-type", "").partition(";")[0]
        return {**exchange, "status": response.status_code, "content_type": content_type, "body": plain(body)}

    def _filled(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self._filled(part) for part in value]
        if not isinstance(value, str):
            return value
        return _PLACEHOLDER.sub(lambda match: self.saved.get(match[1], match[0]), value)


def differences(before: Json, now: Json, where: str = "") -> list[str]:
    """What was there before and is not there now with the same value. What was added is none."""
    if isinstance(before, dict) and isinstance(now, dict):
        if where.rpartition("/")[2] in _OUTPUT_SCHEMAS and "anyOf" in now and "anyOf" not in before:
            # Beside the answer that there was, the short form of one that is stored.
            now = {**now["anyOf"][0], "$defs": now.get("$defs")}
        found: list[str] = []
        for key, value in before.items():
            if key not in now:
                found.append(f"{where}/{key} is gone")
            else:
                found += differences(value, now[key], f"{where}/{key}")
        return found
    if isinstance(before, list) and isinstance(now, list):
        return _list_differences(before, now, where)
    return [] if before == now else [f"{where} was {_short(before)}, is {_short(now)}"]


def _list_differences(before: list[Json], now: list[Json], where: str) -> list[str]:
    """Entries with a name may have been joined by others; so may words, but for those that a request must have."""
    if before and all(isinstance(entry, dict) and "name" in entry for entry in before):
        then, since = ({entry["name"]: entry for entry in entries} for entries in (before, now))
        return differences(then, since, where)
    if all(isinstance(entry, str) for entry in before) and not where.endswith("/required"):
        return [f"{where} has no {entry!r} any more" for entry in before if entry not in now]
    if len(before) != len(now):
        return [f"{where} had {len(before)} entries, has {len(now)}"]
    pairs = enumerate(zip(before, now, strict=True))
    return [line for index, (old, new) in pairs for line in differences(old, new, f"{where}/{index}")]


def _short(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) <= 300 else text[:299] + "…"


def _at(value: Json, path: str) -> str:
    for part in path.split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return str(value)


def _body_of(response: httpx.Response) -> Json:
    kind = response.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        messages = [
            json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:") and line[5:].strip()
        ]
        answers = [message for message in messages if "jsonrpc" in message and "id" in message]
        return answers[-1] if answers else [message for message in messages if "status_message" not in message]
    return response.json() if "json" in kind and response.content else response.text
