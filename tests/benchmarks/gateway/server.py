"""`python server.py EFFECTS [TOOLS]`: an MCP server over stdio whose calls have effects that can be counted.

`pay` waits `before` seconds, adds the line `call` to the file EFFECTS, waits `after` seconds, and answers; `read` only
answers; `find` says whether `call` is in the file. TOOLS further tools do nothing, but have different names and
descriptions. It imports the standard library alone, and executes calls at the same time.
"""

import itertools
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

_EFFECTS = Path(sys.argv[1])
_CALL = {
    "type": "object",
    "properties": {"call": {"type": "string"}, "before": {"type": "number"}, "after": {"type": "number"}},
    "required": ["call"],
}
_VERBS = "create read update delete list search export import archive restore approve reject assign move copy".split()
_THINGS = """invoice order customer contract ticket project branch repository file folder message channel calendar event
contact report dashboard query table column user role group device sensor job pipeline release package image""".split()
_SYSTEMS = """billing sales support engineering finance marketing warehouse analytics security storage network payroll
recruiting logistics production research legal travel facilities quality procurement training inventory""".split()
_lock = threading.Lock()


def tools(further: int) -> list[dict[str, Any]]:
    """The tools; the further ones are those of a large company."""
    names = itertools.islice(itertools.product(_SYSTEMS, _THINGS, _VERBS), further)
    return [
        {"name": "pay", "description": "Pay once.", "inputSchema": _CALL},
        {"name": "find", "description": "Find a call.", "inputSchema": _CALL, "annotations": {"readOnlyHint": True}},
        {"name": "read", "description": "Read.", "inputSchema": _CALL, "annotations": {"readOnlyHint": True}},
        *(_further(system, thing, verb) for system, thing, verb in names),
    ]


def _further(system: str, thing: str, verb: str) -> dict[str, Any]:
    return {
        "name": f"{system}_{verb}_{thing}",
        "description": f"{verb.capitalize()} a {thing} of the {system} system, and return it.",
        "inputSchema": {
            "type": "object",
            "properties": {
                f"{thing}_id": {"type": "string", "description": f"The id of the {thing} in the {system} system."},
                "fields": {"type": "object", "description": f"Fields of the {thing} by name."},
                "dry_run": {"type": "boolean", "description": "Only check whether it is possible."},
            },
            "required": [f"{thing}_id"],
        },
        "annotations": {"readOnlyHint": verb in ("read", "list", "search")},
    }


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    time.sleep(arguments.get("before", 0))
    if name == "pay":
        with _lock, _EFFECTS.open("a") as file:
            file.write(f"{arguments['call']}\n")
    time.sleep(arguments.get("after", 0))
    if name == "find":
        done = _EFFECTS.exists() and arguments["call"] in _EFFECTS.read_text().splitlines()
        return {"content": [{"type": "text", "text": json.dumps(done)}], "structuredContent": {"done": done}}
    return {"content": [{"type": "text", "text": f"{name} {arguments.get('call', '')}"}]}


def _answer(message: dict[str, Any], listed: list[dict[str, Any]]) -> None:
    params = message.get("params") or {}
    body: dict[str, Any]
    match message["method"]:
        case "initialize":
            about = {"name": "effects", "version": "1"}
            capabilities = {"tools": {}}
            body = {"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": about}}
        case "ping":
            body = {"result": {}}
        case "tools/list":
            body = {"result": {"tools": listed}}
        case "tools/call":
            body = {"result": _call(params["name"], params.get("arguments") or {})}
        case method:
            body = {"error": {"code": -32601, "message": f"There is no method {method}"}}
    text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **body})
    with _lock:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main() -> None:
    """Answer what comes on standard input, until it ends."""
    listed = tools(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "tools/call":
            threading.Thread(target=_answer, args=(message, listed), daemon=True).start()
        else:
            _answer(message, listed)


if __name__ == "__main__":
    main()
