"""The server that a client uses, its credential, and HTTP requests as httpx sends them. Shared by both clients."""

import codecs
import json
import os
import re
import secrets
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outlast.client.errors import ApiError, BadSettings, Conflict, InvalidRequest, NoServer, NotFound, Unauthenticated
from outlast.contracts.handoffs import HandoffEvent, OpenHandoff
from outlast.contracts.tasks import Event, TaskRow, ToolError
from outlast.paths import default_data_dir

if TYPE_CHECKING:
    from outlast.deploy.local.state import StackState

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Connection:
    """A server's address and the credential for it.

    With an `instance_id` the server must prove that it is this stack before anything is sent to it. `hint` says what
    to do when it does not answer.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    instance_id: str | None = None
    hint: str | None = None

    @property
    def is_loopback(self) -> bool:
        """True if the server is on this machine."""
        return urlsplit(self.url).hostname in _LOOPBACK


def find_connection(
    url: str | None = None,
    token: str | None = None,
    data_dir: Path | str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Connection:
    """The server to talk to: `url` or OUTLAST_URL, else the stack that runs on the data directory.

    The data directory is `data_dir`, or OUTLAST_DATA_DIR, or this user's own. The token is `token` or OUTLAST_TOKEN.
    Raises `BadSettings` for an address or a token that cannot be one, and `NoServer` when no stack runs.
    """
    checked_token = _checked_token(token or environment.get("OUTLAST_TOKEN"))
    named = url or environment.get("OUTLAST_URL")
    if named:
        hint = "Check the address (--url or OUTLAST_URL). `outlast up` starts a server on this machine."
        return Connection(_checked_url(named), checked_token, hint=hint)
    return _own_stack(Path(data_dir) if data_dir else _data_dir(environment), checked_token)


def running_stack(data_dir: Path) -> "StackState | None":
    """The stack that runs on this directory; None also when this user cannot read the directory."""
    from outlast.deploy.local.state import find_running  # noqa: PLC0415 (not needed where an address is given)

    try:
        return find_running(data_dir)
    except OSError:  # not a directory, or not readable for this user
        return None


def _own_stack(data_dir: Path, token: str | None) -> Connection:
    state = running_stack(data_dir)
    if state is None or state.addresses.api_url is None:
        raise NoServer(
            f"No stack runs on the data directory {data_dir}.",
            hint="Start one with `outlast up`, or name a server with --url or OUTLAST_URL.",
        )
    hint = f"The stack on {data_dir} is running, but its API is not ready: `outlast doctor` says more."
    return Connection(state.addresses.api_url, token, state.instance_id or None, hint)


def _data_dir(environment: Mapping[str, str]) -> Path:
    named = environment.get("OUTLAST_DATA_DIR")
    return Path(named) if named else default_data_dir()


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadSettings(f"{url!r} is not the address of a server.", hint="It reads like http://127.0.0.1:8400.")
    return url.rstrip("/")


def _checked_token(token: str | None) -> str | None:
    """The token, which has to fit into a header. The error does not repeat it."""
    if not token:
        return None
    if not _TOKEN.fullmatch(token.strip()):
        raise BadSettings(
            "The token has characters that no token has.",
            hint="Check OUTLAST_TOKEN or --token for spaces and line ends.",
        )
    return token.strip()


Params = tuple[tuple[str, str], ...]
CONNECT_SECONDS = 10.0
HEADERS = {"User-Agent": "outlast-client"}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. `path` starts with a slash; `timeout_seconds` is the longest silence, None the client's own.

    `content` is sent as it is, `body` as JSON.
    """

    method: str
    path: str
    params: Params = ()
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: JsonValue = None
    timeout_seconds: float | None = None
    content: bytes | None = None


def path(*parts: str) -> str:
    """The path of a resource: `path("tasks", "t 1")` is `/v1/tasks/t%201`."""
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def query(**values: Any) -> Params:
    """Query parameters without those that are None; `from_` stands for `from`."""
    return tuple((name.rstrip("_"), _text(value)) for name, value in values.items() if value is not None)


def idempotency(key: str | None) -> dict[str, str]:
    """Headers that make a request safe to repeat when its answer is lost. Without `key` it gets a new one."""
    return {"Idempotency-Key": key or secrets.token_hex(16)}


def timeout_of(seconds: float) -> httpx.Timeout:
    """The longest silence; connecting has its own limit."""
    return httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def settings(connection: Connection, timeout_seconds: float) -> dict[str, Any]:
    """Arguments of httpx's clients for a server."""
    return {
        "base_url": connection.url,
        "headers": HEADERS,
        "timeout": timeout_of(timeout_seconds),
        # Proxies of the environment are not meant for this machine.
        "trust_env": not connection.is_loopback,
        # Reading the machine's authorities takes 20 ms: it is left out where there are no certificates to check.
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if connection.url.startswith("http://") else True,
    }


def build(http: httpx.Client | httpx.AsyncClient, request: HttpRequest, headers: dict[str, str]) -> httpx.Request:
    """The request as httpx sends it; its own headers override `headers`."""
    built = http.build_request(
        request.method,
        request.path,
        params=list(request.params) or None,
        headers=headers | request.headers,
        json=request.body,
        content=request.content,
    )
    if request.timeout_seconds is not None:
        built.extensions["timeout"] = timeout_of(request.timeout_seconds).as_dict()
    return built


def json_lines(values: Iterable[JsonValue]) -> bytes:
    """Values as lines of JSON."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def _text(value: object) -> str:
    return "true" if value is True else "false" if value is False else str(value)


SILENCE_SECONDS = 45.0
"""The API sends a comment every 15 seconds on an event stream; after this long without one the connection is dead."""
NO_CONTENT = HTTPStatus.NO_CONTENT
"""Status of the answer to a request that resumes a stream whose last event has been read."""
_REFUSALS: dict[str, tuple[type[ApiError], HTTPStatus]] = {
    "conflict": (Conflict, HTTPStatus.CONFLICT),
    "authentication": (Unauthenticated, HTTPStatus.UNAUTHORIZED),
    "not_found": (NotFound, HTTPStatus.GONE),
}
_HANDOFFS = {"handoff": "opened", "handoff_closed": "closed"}
# Nothing else ends a line: JSON may contain U+2028, at which `str.splitlines` would break the line.
_LINE_END = re.compile(r"\r\n|\n|\r")


_OF_ANY_ERROR = {"tool": "", "category": "unknown", "retryable": False}
"""Fields of an error that an older server may leave out."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is None when the event has none."""

    name: str
    data: str
    id: str | None = None


class SseParser:
    """Takes the bytes of a stream, and gives the events that they complete.

    It ignores the `retry` field: `RetryPolicy` decides about the pauses before a new connection.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._fields: dict[str, str] = {}
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Give the events that end in `chunk`."""
        text = self._rest + self._decoder.decode(chunk)
        ends_in_doubt = text.endswith("\r")  # the \n of a \r\n may come with the next chunk
        lines = _LINE_END.split(text[:-1] if ends_in_doubt else text)
        self._rest = lines.pop() + ("\r" if ends_in_doubt else "")
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name in ("id", "event"):
            self._fields[name] = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        fields, data = self._fields, self._data
        self._fields, self._data = {}, []
        if not data:
            return None
        return ServerSentEvent(name=fields.get("event") or "message", data="\n".join(data), id=fields.get("id"))


class _Payload(BaseModel):
    model_config = ConfigDict(defer_build=True)

    time: str | None = None
    data: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


def stream_request(path: str, after: str | None, params: Params = ()) -> HttpRequest:
    """The request for an event stream after the event with id `after`."""
    resume = {"Last-Event-ID": after} if after else {}
    headers = {"Accept": "text/event-stream", **resume}
    return HttpRequest("GET", path, params=params, headers=headers, timeout_seconds=SILENCE_SECONDS)


def event_of(raw: ServerSentEvent) -> Event:
    """The event that the API sent; without data when its data are not the API's."""
    try:
        payload = _Payload.model_validate_json(raw.data)
    except ValidationError:
        payload = _Payload()
    return Event(raw.name, raw.id, payload.time, payload.data)


def is_unresumable(event: Event) -> bool:
    """True if no client can resume the stream after this event."""
    return event.name == "error" and event.id is None and event.data.get("retryable") is False


def row_of(event: Event) -> TaskRow | None:
    """The row that an event carries, if any. Raises `ApiError` for rows that cannot be read."""
    if event.name == "error" and event.data.get("retryable") is False:
        error = ToolError.model_validate(_OF_ANY_ERROR | event.data, extra="allow")
        kind, status = _REFUSALS.get(error.category, (InvalidRequest, HTTPStatus.UNPROCESSABLE_ENTITY))
        raise kind(error.message, status=status, hint=error.hint)
    return TaskRow(event.id, event.data) if event.name == "row" and event.id is not None else None


def handoff_event(raw: ServerSentEvent) -> HandoffEvent | None:
    """The event about a hand-off; None for one that only a newer client knows."""
    if raw.name not in _HANDOFFS:
        return None
    try:
        return HandoffEvent(_HANDOFFS[raw.name], OpenHandoff.model_validate(event_of(raw).data, extra="allow"))
    except ValidationError:
        return None
