"""Recorded calls of BFCL and AgentDojo as tools of an MCP server, which keeps its state in a database.

    python worlds.py prepare DATABASE SHARE        the worlds, and how each ends when nothing is killed
    python worlds.py serve DATABASE DEATHS         the MCP server (stdio); it kills itself in its DEATHS-th call
    python worlds.py compare DATABASE              the worlds that have not ended as in `prepare`, as JSON

A world is one entry of BFCL or one task of AgentDojo: its state, and the calls that its authors recorded as the right
ones. A call changes its world and writes that it was executed in one transaction, as a service with a database does.
It runs in an environment of its own (`environment.py`), and uses nothing of this repository.
"""

import ast
import datetime as dt
import importlib
import inspect
import itertools
import json
import os
import pickle
import signal
import sqlite3
import sys
import types
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SERVERS = ("keyed", "checked", "bare")
"""Each has a third of the worlds: with an idempotency argument, with a `verify`, and with neither."""
_CATEGORIES = ("base", "long_context", "miss_func", "miss_param")
_SUITES_VERSION = "v1.2.2"
_TABLES = """
CREATE TABLE worlds (id TEXT PRIMARY KEY, source TEXT, suite TEXT, server TEXT, state BLOB, expected BLOB);
CREATE TABLE gold (world TEXT, step INTEGER, tool TEXT, arguments TEXT, answer TEXT, PRIMARY KEY (world, step));
CREATE TABLE tools (name TEXT PRIMARY KEY, definition TEXT);
CREATE TABLE arrivals (id INTEGER PRIMARY KEY, world TEXT, step INTEGER, tool TEXT, end TEXT);
CREATE TABLE executed (id INTEGER PRIMARY KEY, world TEXT, step INTEGER, tool TEXT, arguments TEXT, answer TEXT,
                       request_id TEXT);
CREATE TABLE deaths (world TEXT, step INTEGER, after INTEGER);
CREATE INDEX arrivals_of ON arrivals (world, step);
CREATE INDEX executed_of ON executed (world, step);
CREATE INDEX executed_for ON executed (request_id);
"""
_ADDRESS = {
    "world": {"type": "string", "description": "The world."},
    "step": {"type": "integer", "description": "The number of the call in its world."},
}
_REQUEST_ID = {"type": "string", "description": "A call with an id that was seen before is not executed again."}
_FIND = {
    "name": "find_call",
    "description": "Whether a call was executed, and its answer.",
    "inputSchema": {"type": "object", "properties": _ADDRESS, "required": ["world", "step"]},
    "annotations": {"readOnlyHint": True},
}
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None}


@dataclass
class World:
    """One entry or task: its state, and its recorded calls as names of tools with arguments."""

    source: str
    suite: str
    id: str
    state: Any
    calls: list[tuple[str, dict[str, Any]]]


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, timeout=60)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    return database


# BFCL: a world is a dict of objects by class, and a tool is a method of one of them.


def _bfcl_folder() -> Path:
    return Path(importlib.import_module("bfcl_eval").__path__[0])


def _bfcl_class(name: str) -> Any:
    config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
    return getattr(importlib.import_module(config.CLASS_FILE_PATH_MAPPING[name]), name)


def _bfcl_worlds() -> Iterator[World]:
    data = _bfcl_folder() / "data"
    for category in _CATEGORIES:
        name = f"BFCL_v4_multi_turn_{category}.json"
        entries, answers = (
            [json.loads(line) for line in (folder / name).open()] for folder in (data, data / "possible_answer")
        )
        recorded = {answer["id"]: answer["ground_truth"] for answer in answers}
        for entry in entries:
            state = {
                owner: _bfcl_object(owner, entry, long_context=category == "long_context")
                for owner in entry["involved_classes"]
            }
            calls = [_bfcl_call(state, call) for turn in recorded[entry["id"]] for call in turn]
            yield World("BFCL", category, entry["id"], state, calls)


def _bfcl_object(owner: str, entry: Mapping[str, Any], *, long_context: bool) -> Any:
    made = _bfcl_class(owner)()
    if hasattr(made, "_load_scenario"):
        # The packages share their defaults between objects; a copy by way of bytes has its own.
        scenario = json.loads(json.dumps(entry["initial_config"].get(owner, {})))
        made._load_scenario(scenario, long_context=long_context)
    return pickle.loads(pickle.dumps(made))


def _bfcl_call(state: Mapping[str, Any], text: str) -> tuple[str, dict[str, Any]]:
    """The call that a line such as `sort('report.txt')` records."""
    call = ast.parse(text.strip(), mode="eval").body
    assert isinstance(call, ast.Call), text
    assert isinstance(call.func, ast.Name), text
    positional = [ast.literal_eval(value) for value in call.args]
    named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    bound = inspect.signature(_bfcl_method(state, call.func.id)).bind(*positional, **named)
    return call.func.id, dict(bound.arguments)


def _bfcl_method(state: Mapping[str, Any], name: str) -> Callable[..., Any]:
    return next(getattr(one, name) for one in state.values() if hasattr(one, name))


def _bfcl_tools() -> Iterator[dict[str, Any]]:
    for path in sorted((_bfcl_folder() / "data" / "multi_turn_func_doc").glob("*.json")):
        for line in path.open():
            described = json.loads(line)
            yield {
                "name": described["name"],
                "description": described["description"],
                "inputSchema": _json_schema(described["parameters"]),
            }


def _json_schema(described: Any) -> Any:
    """The schema with the names of types that JSON Schema has."""
    if isinstance(described, list):
        return [_json_schema(one) for one in described]
    if not isinstance(described, dict):
        return described
    schema = {key: _json_schema(value) for key, value in described.items() if key != "default"}
    if isinstance(schema.get("type"), str):
        schema["type"] = _TYPES.get(schema["type"], schema["type"])
    if "ticket_id" in schema:  # a number, but BFCL's own calls of `close_ticket` have texts
        schema["ticket_id"] = {"description": "The id of the ticket."}
    return {key: value for key, value in schema.items() if value is not None}


# AgentDojo: a world is the environment of a suite, a pydantic model, and a tool is a function of that suite.


@cache
def _suites() -> dict[str, Any]:
    """The suites, without the clients of model providers that the package imports beside them."""
    folder = Path(importlib.import_module("agentdojo").__path__[0])
    pipeline = types.ModuleType("agentdojo.agent_pipeline")
    pipeline.__path__ = [str(folder / "agent_pipeline")]
    unused = types.ModuleType("agentdojo.agent_pipeline.ground_truth_pipeline")
    unused.GroundTruthPipeline = object  # type: ignore[attr-defined]
    sys.modules.update({pipeline.__name__: pipeline, unused.__name__: unused})
    suites = dict(importlib.import_module("agentdojo.task_suite.load_suites").get_suites(_SUITES_VERSION))
    for name in ("email_client", "cloud_drive_client"):
        # E-mails and files have the time of the call, and the two runs have to be equal.
        module: Any = importlib.import_module(f"agentdojo.default_suites.v1.tools.{name}")
        module.datetime = types.SimpleNamespace(**{**vars(dt), "datetime": _StoppedClock})
    return suites


class _StoppedClock(dt.datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
        return dt.datetime(2024, 5, 15, 12, tzinfo=tz)


def _dojo_worlds() -> Iterator[World]:
    for name, suite in _suites().items():
        environment = pickle.dumps(suite.load_and_inject_default_environment({}))
        for task_id, task in suite.user_tasks.items():
            state = task.init_environment(pickle.loads(environment))
            recorded = task.ground_truth(pickle.loads(pickle.dumps(state)))
            calls = [(f"{name}_{call.function}", dict(call.args)) for call in recorded]
            yield World("AgentDojo", name, f"{name}_{task_id}", state, calls)


def _dojo_tools() -> Iterator[dict[str, Any]]:
    for name, suite in _suites().items():
        for tool in suite.tools:
            yield {
                "name": f"{name}_{tool.name}",
                "description": tool.description,
                "inputSchema": tool.parameters.model_json_schema(),
            }


@cache
def _runtime(suite: str) -> Any:
    return importlib.import_module("agentdojo.functions_runtime").FunctionsRuntime(_suites()[suite].tools)


# Both.


def _run(source: str, suite: str, state: Any, tool: str, arguments: dict[str, Any]) -> str:
    """Execute a call, and return its answer as text."""
    if source == "BFCL":
        try:
            found = _bfcl_method(state, tool)(**arguments)
        except Exception as error:  # noqa: BLE001 (as BFCL does)
            return f"Error during execution: {error}"
        return found if isinstance(found, str) else json.dumps(found, default=str)
    result, problem = _runtime(suite).run_function(state, tool.removeprefix(f"{suite}_"), arguments)
    to_json = importlib.import_module("pydantic_core").to_json
    return problem or to_json(result, fallback=str).decode()


def _load(source: str, state: bytes) -> Any:
    if source == "AgentDojo":
        _suites()
    return pickle.loads(state)


def prepare(path: Path, share: int) -> None:
    """Write the worlds (every `share`-th of BFCL and of AgentDojo) as they begin, and what a straight run makes of
    them. A tool is read-only if none of its calls changed anything there.
    """
    database = _connect(path)
    database.executescript(_TABLES)
    chosen = [*itertools.islice(_bfcl_worlds(), 0, None, share), *itertools.islice(_dojo_worlds(), 0, None, share)]
    used: set[str] = set()
    writing: set[str] = set()
    database.execute("BEGIN")
    for number, world in enumerate(chosen):
        began = state = pickle.dumps(world.state)
        for step, (tool, arguments) in enumerate(world.calls):
            loaded = pickle.loads(state)
            before = pickle.dumps(loaded)
            answer = _run(world.source, world.suite, loaded, tool, json.loads(json.dumps(arguments)))
            state = pickle.dumps(loaded)
            used.add(tool)
            if state != before:
                writing.add(tool)
            database.execute(
                "INSERT INTO gold VALUES (?, ?, ?, ?, ?)", (world.id, step, tool, json.dumps(arguments), answer)
            )
        server = SERVERS[number % len(SERVERS)]
        database.execute(
            "INSERT INTO worlds VALUES (?, ?, ?, ?, ?, ?)", (world.id, world.source, world.suite, server, began, state)
        )
    for tool in (*_bfcl_tools(), *_dojo_tools()):
        if tool["name"] in used:
            used.remove(tool["name"])
            reads = {"readOnlyHint": tool["name"] not in writing}
            database.execute("INSERT INTO tools VALUES (?, ?)", (tool["name"], json.dumps(_offered(tool, reads))))
    database.execute("COMMIT")
    assert not used, used


def _offered(tool: dict[str, Any], annotations: dict[str, bool]) -> dict[str, Any]:
    schema = tool["inputSchema"]
    properties = {**schema.get("properties", {}), **_ADDRESS, "request_id": _REQUEST_ID}
    required = [*schema.get("required", ()), *_ADDRESS]
    return {
        **tool,
        "inputSchema": {**schema, "properties": properties, "required": required},
        "annotations": annotations,
    }


class Server:
    """The tools of all worlds."""

    def __init__(self, path: Path, deaths: int) -> None:
        self._database = _connect(path)
        self._deaths = deaths
        self._calls = 0

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The result of a request; None for an unknown method."""
        match method:
            case "initialize":
                server = {"name": "worlds", "version": "1"}
                return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
            case "ping":
                return {}
            case "tools/list":
                rows = self._database.execute("SELECT definition FROM tools ORDER BY name")
                return {"tools": [_FIND, *(json.loads(definition) for (definition,) in rows)]}
            case "tools/call":
                return self._call(params["name"], dict(params.get("arguments") or {}))
            case _:
                return None

    def _call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        world, step, request_id = arguments.pop("world"), arguments.pop("step"), arguments.pop("request_id", None)
        order = "INSERT INTO arrivals (world, step, tool) VALUES (?, ?, ?)"
        arrival = self._database.execute(order, (world, step, tool)).lastrowid
        if tool == "find_call":
            return self._find(arrival, world, step)
        self._calls += 1
        self._database.execute("BEGIN IMMEDIATE")
        seen = self._database.execute("SELECT answer FROM executed WHERE request_id = ?", (request_id,)).fetchone()
        if seen is None:
            text = self._execute(world, step, tool, arguments, request_id)
            self._die(world, step, after=False)
        else:
            (text,) = seen
        self._end(arrival, "executed" if seen is None else "recognized")
        self._database.execute("COMMIT")
        self._die(world, step, after=True)
        return {"content": [{"type": "text", "text": text}]}

    def _execute(self, world: str, step: int, tool: str, arguments: dict[str, Any], request_id: str | None) -> str:
        source, suite, state = self._database.execute(
            "SELECT source, suite, state FROM worlds WHERE id = ?", (world,)
        ).fetchone()
        loaded, given = _load(source, state), json.dumps(arguments)
        text = _run(source, suite, loaded, tool, arguments)
        self._database.execute("UPDATE worlds SET state = ? WHERE id = ?", (pickle.dumps(loaded), world))
        row = (world, step, tool, given, text, request_id)
        self._database.execute("INSERT INTO executed VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)
        return text

    def _find(self, arrival: int | None, world: str, step: int) -> dict[str, Any]:
        query = "SELECT answer FROM executed WHERE world = ? AND step = ?"
        found = self._database.execute(query, (world, step)).fetchone()
        self._end(arrival, "not found" if found is None else "found")
        structured = {"done": found is not None, "answer": found and found[0]}
        return {"content": [{"type": "text", "text": json.dumps(structured)}], "structuredContent": structured}

    def _end(self, arrival: int | None, end: str) -> None:
        self._database.execute("UPDATE arrivals SET end = ? WHERE id = ?", (end, arrival))

    def _die(self, world: str, step: int, *, after: bool) -> None:
        """`kill -9` this process, if it is its time: before it has written anything, or before it answers."""
        if not self._deaths or self._calls < self._deaths or zlib.crc32(f"{world} {step}".encode()) % 2 != after:
            return
        if not after:
            self._database.execute("ROLLBACK")  # as the kill does; the next line must stay
        self._database.execute("INSERT INTO deaths VALUES (?, ?, ?)", (world, step, after))
        os.kill(os.getpid(), signal.SIGKILL)


def serve(path: Path, deaths: int) -> None:
    """Answer the requests on standard input."""
    server = Server(path, deaths)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = server.answer(message["method"], message.get("params") or {})
        body = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
        sys.stdout.flush()


def compare(path: Path) -> list[str]:
    """The ids of the worlds whose state is not that of the straight run, as their packages compare them."""
    checker = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker").state_checker
    differing: list[str] = []
    rows = _connect(path).execute("SELECT id, source, state, expected FROM worlds")
    for world, source, state, expected in rows:
        now, then = _load(source, state), _load(source, expected)
        is_equal = checker(now, then)["valid"] if source == "BFCL" else now == then
        if not is_equal:
            differing.append(world)
    return differing


if __name__ == "__main__":
    match sys.argv[1]:
        case "prepare":
            prepare(Path(sys.argv[2]), int(sys.argv[3]))
        case "serve":
            serve(Path(sys.argv[2]), int(sys.argv[3]))
        case "compare":
            sys.stdout.write(json.dumps(compare(Path(sys.argv[2]))))
