"""Messages of the Model Context Protocol by grammar: valid ones, nearly valid ones, and others, of both revisions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.support.hostile.texts import JSON, NUMBERS, TEXTS, as_json, mostly
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN

_META = "io.modelcontextprotocol"
_CALLS: dict[str, dict[str, Any]] = {
    "say": {"text": "x"},
    "say-lines": {"line": "x", "times": 2_000},
    "fail": {},
    "ask-name": {},
    "call-actor": {"actor": "outlast/absent", "input": {}},
    "get-actor-run": {"runId": "x"},
    "list-tasks": {},
}
_OF_TASKS = ["get-task", "cancel-task", "answer-task"]
_VERSIONS = st.sampled_from([LEGACY, MODERN, "2025-06-18", "2024-11-05", "1999-01-01", ""])
_ACCEPTS = ["application/json, text/event-stream", "application/json", "text/event-stream", "*/*", "text/html", ""]


@dataclass(frozen=True)
class Known:
    """What a caller can name: tasks and MCP sessions, its own and those of others."""

    tasks: Sequence[str]
    sessions: Sequence[str] = ()


@dataclass(frozen=True)
class Message:
    """A message as bytes, with the headers that carry it over HTTP."""

    body: bytes
    headers: dict[str, bytes]
    may_wait: bool
    """Whether it may be answered late, or never, as the protocol says."""


def messages(known: Known, revision: str) -> st.SearchStrategy[Message]:
    """Messages of a revision; some are meant for the other one."""
    methods = _methods(known)
    # Those that name a task more often: there a stranger could see something.
    names = [*methods, *(name for name in methods if name.startswith("tasks/") for _ in range(3))]
    request = st.one_of(*(_request(name, methods[name]) for name in names))
    return st.builds(
        _message,
        mostly(request, _request_of_nobody()),
        revision=mostly(st.just(revision), st.sampled_from([LEGACY, MODERN])),
        capabilities=mostly(st.sampled_from([KNOWS_TASKS, {**KNOWS_TASKS, "elicitation": {}}, {"elicitation": {}}])),
        session=mostly(st.sampled_from(known.sessions[:1]), st.sampled_from([*known.sessions, "", "none-of-these"])),
        accept=mostly(st.just(_ACCEPTS[0]), st.sampled_from(_ACCEPTS)),
        version=mostly(st.none(), _VERSIONS),
        damage=mostly(st.just(""), st.sampled_from(["batch", "cut", "twice", "utf-16", "not json"])),
        mirrored=mostly(st.just(True), st.just(False)),
    )


def _request(method: str, params: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    envelope = {"jsonrpc": mostly(st.just("2.0")), "method": st.just(method), "params": mostly(params)}
    if not method.startswith("notifications/"):
        envelope["id"] = mostly(st.integers(0, 99) | st.text("ab-", min_size=1, max_size=9))
    return st.fixed_dictionaries(envelope)


def _request_of_nobody() -> st.SearchStrategy[dict[str, Any]]:
    fields = {"jsonrpc": mostly(st.just("2.0")), "id": JSON, "method": TEXTS, "params": JSON, "result": JSON}
    return st.fixed_dictionaries({}, optional={**fields, "error": JSON})


def _methods(known: Known) -> dict[str, st.SearchStrategy[Any]]:
    """The parameters of each method."""
    task_id = mostly(st.sampled_from(known.tasks))
    uri = mostly(
        st.sampled_from([*(f"outlast://tasks/{task}" for task in known.tasks), "ui://outlast/run", "file:///x"])
    )
    client = st.just({"name": "fuzz", "version": "1"})
    answers = mostly(st.just({"name": {"action": "accept", "content": {"name": "x"}}}))
    listened = st.fixed_dictionaries(
        {},
        optional={
            "taskIds": mostly(st.lists(task_id, max_size=3)),
            "toolsListChanged": mostly(st.booleans()),
            "resourceSubscriptions": mostly(st.lists(uri, max_size=3)),
        },
    )
    return {
        "initialize": _fields(
            protocolVersion=mostly(_VERSIONS), capabilities=mostly(st.just({})), clientInfo=mostly(client)
        ),
        "ping": _fields(),
        "server/discover": _fields(),
        "tools/list": _pages(),
        "tools/call": _calls(known),
        "tasks/get": _fields(taskId=task_id),
        "tasks/cancel": _fields(taskId=task_id),
        "tasks/result": _fields(taskId=task_id),
        "tasks/update": _fields(taskId=task_id, inputResponses=answers),
        "tasks/list": _pages(),
        "prompts/list": _pages(),
        "prompts/get": _fields(name=TEXTS, arguments=mostly(st.dictionaries(TEXTS, TEXTS, max_size=2))),
        "resources/list": _pages(),
        "resources/templates/list": _fields(),
        "resources/read": _fields(uri=uri),
        "resources/subscribe": _fields(uri=uri),
        "resources/unsubscribe": _fields(uri=uri),
        "completion/complete": _fields(
            ref=mostly(st.just({"type": "ref/resource", "uri": "outlast://tasks/{taskId}"})),
            argument=mostly(st.fixed_dictionaries({"name": TEXTS, "value": TEXTS})),
        ),
        "logging/setLevel": _fields(level=mostly(st.sampled_from(["debug", "info", "error"]))),
        "subscriptions/listen": _fields(notifications=mostly(listened)),
        "notifications/initialized": _fields(),
        "notifications/cancelled": _fields(requestId=JSON, reason=TEXTS),
        "notifications/progress": _fields(progressToken=JSON, progress=NUMBERS),
        "notifications/roots/list_changed": _fields(),
    }


def _pages() -> st.SearchStrategy[dict[str, Any]]:
    return mostly(st.just({}), st.fixed_dictionaries({"cursor": TEXTS}))


def _calls(known: Known) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(sorted(_CALLS))
    sound = [
        names.map(lambda name: {"name": name, "arguments": _CALLS[name]}),
        names.map(lambda name: {"name": name, "arguments": _CALLS[name], "task": {"ttl": 60_000}}),
        st.builds(
            lambda name, task: {"name": name, "arguments": {"taskId": task}},
            st.sampled_from(_OF_TASKS),
            st.sampled_from(known.tasks),
        ),
    ]
    arguments = st.dictionaries(st.sampled_from(["text", "line", "times", "taskId"]) | TEXTS, JSON, max_size=4)
    return st.one_of(*sound, _fields(name=mostly(names), arguments=mostly(arguments), task=JSON))


def _fields(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with these; now and then only some of them, and others."""
    return mostly(
        st.fixed_dictionaries(fields), st.fixed_dictionaries({}, optional={**fields, "_meta": JSON, "more": JSON})
    )


def _message(
    request: dict[str, Any],
    *,
    revision: str,
    capabilities: Any,
    session: str,
    accept: str,
    version: str | None,
    damage: str,
    mirrored: bool,
) -> Message:
    method, params = request.get("method"), request.get("params")
    if revision == MODERN and isinstance(params, dict):
        given = params.get("_meta")
        own = {f"{_META}/protocolVersion": MODERN, f"{_META}/clientCapabilities": capabilities}
        request = {**request, "params": {**params, "_meta": {**own, **(given if isinstance(given, dict) else {})}}}
    headers = {"Content-Type": "application/json", "Accept": accept}
    headers |= {"MCP-Protocol-Version": revision if version is None else version} if method != "initialize" else {}
    headers |= {"Mcp-Session-Id": session} if session and revision == LEGACY else {}
    headers |= _mirrored(method, params) if mirrored and revision == MODERN else {}
    return Message(
        _damaged(as_json(request), damage),
        {
            name: value.encode("latin-1", "replace")
            for name, value in headers.items()
            if value.isprintable() and value == value.strip()
        },
        may_wait=method in ("tasks/result", "subscriptions/listen", "tools/call"),
    )


def _mirrored(method: Any, params: Any) -> dict[str, str]:
    """The headers of 2026-07-28 that repeat what the body says."""
    fields: dict[str, Any] = params if isinstance(params, dict) else {}
    name = next((fields[key] for key in ("name", "uri", "taskId") if isinstance(fields.get(key), str)), None)
    headers = {"Mcp-Method": method} if isinstance(method, str) else {}
    return headers | ({"Mcp-Name": name} if name else {})


def _damaged(body: bytes, damage: str) -> bytes:
    match damage:
        case "batch":
            return b"[" + body + b"," + body + b"]"
        case "cut":
            return body[: len(body) // 2]
        case "twice":
            return body + body
        case "utf-16":
            return body.decode().encode("utf-16")
        case "not json":
            return b"\xff\x00" + body
        case _:
            return body
