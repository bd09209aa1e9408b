"""An MCP server whose calls have effects that can be counted: `append` and `put` write a line to the file EFFECTS.

Without the MCP SDK, so that it starts at once: over stdio as a program, over Streamable HTTP as `http_server`. The
argument `gate` of its tools names a file that the call waits for after its effect, before it answers. With the
argument `notes@2.1`, it crashes at each call.
"""

import http.server
import itertools
import json
import os
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

_EFFECTS = Path(os.environ.get("EFFECTS", os.devnull))
_READ_ONLY = {"readOnlyHint": True}
_TEXT = {"type": "object", "properties": {"text": {"type": "string"}, "gate": {"type": "string"}}}
_TOOLS: list[dict[str, Any]] = [
    {"name": "append", "description": "Write a line.", "inputSchema": _TEXT},
    {"name": "put", "inputSchema": _TEXT, "annotations": {"idempotentHint": True}},
    {"name": "lines", "inputSchema": _TEXT, "annotations": _READ_ONLY},
    {"name": "count", "description": "Number of calls in this session.", "inputSchema": _TEXT},
    {"name": "large", "inputSchema": {"type": "object"}, "annotations": _READ_ONLY},
    {"name": "environment", "inputSchema": {"type": "object"}, "annotations": _READ_ONLY},
    {"name": "ask", "inputSchema": {"type": "object"}, "annotations": _READ_ONLY},
    {"name": "fail", "inputSchema": {"type": "object"}, "annotations": _READ_ONLY},
    {
        "name": "meta",
        "description": "`_meta` of the call.",
        "inputSchema": {"type": "object"},
        "annotations": _READ_ONLY,
    },
    {"name": "die", "inputSchema": {"type": "object"}},
]
if os.environ.get("ONLY_SAFE"):
    _TOOLS = [tool for tool in _TOOLS if tool.get("annotations")]
_lock = threading.Lock()
_answers: dict[str, Any] = {}
_answered = threading.Condition()
_numbers = itertools.count(1)


def _effect(text: str) -> None:
    with _lock, _EFFECTS.open("a") as file:
        file.write(f"{text}\n")


def _await_gate(arguments: dict[str, Any]) -> None:
    while (gate := arguments.get("gate")) and not Path(gate).exists():
        time.sleep(0.01)


def _ask(send: Any) -> str:
    key = uuid.uuid4().hex
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = {"message": "Who is there?", "requestedSchema": schema}
    send({"jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": params})
    with _answered:
        _answered.wait_for(lambda: key in _answers)
    return json.dumps(_answers[key])


def _call(params: dict[str, Any], send: Any) -> dict[str, Any]:
    name, arguments = params["name"], params.get("arguments") or {}
    number = next(_numbers)
    text = str(arguments.get("text", ""))
    if name in ("append", "put"):
        _effect(text)
    _await_gate(arguments)
    if name == "lines":
        text = _EFFECTS.read_text() if _EFFECTS.exists() else ""
        structured = {"lines": text.splitlines()}
        return {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    if name == "die" or "notes@2.1" in sys.argv:
        os._exit(1)
    if name == "fail":
        return {"content": [{"type": "text", "text": "It cannot be done."}], "isError": True}
    values = {
        "count": lambda: str(number),
        "large": lambda: "x" * 2_000_000,
        "environment": lambda: json.dumps(sorted(os.environ)),
        "ask": lambda: _ask(send),
        "meta": lambda: json.dumps(params.get("_meta")),
    }
    return {"content": [{"type": "text", "text": values[name]() if name in values else f"did {text}"}]}


def answer(message: dict[str, Any], send: Any = None) -> dict[str, Any] | None:
    """The answer to a message of JSON-RPC; None for notifications and answers."""
    method, number = message.get("method"), message.get("id")
    if method is None:
        with _answered:
            _answers[str(number)] = message.get("result", message.get("error"))
            _answered.notify_all()
        return None
    if number is None:
        return None
    params = message.get("params") or {}
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "effects", "version": "1"},
            "instructions": "Count the effects.",
        }
    elif method == "tools/list":
        result = {"tools": _TOOLS}
    elif method == "tools/call":
        result = _call(params, send)
    elif method == "ping":
        result = {}
    else:
        return {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": f"no {method}"}}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _over_stdio() -> None:
    def send(message: dict[str, Any]) -> None:
        with _lock:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    def serve(message: dict[str, Any]) -> None:
        if (found := answer(message, send)) is not None:
            send(found)

    sys.stderr.write("effects server: started\n")
    sys.stderr.flush()
    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    session = "first"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "Authorization" in self.headers:
            self._send(401, b"")
            return
        if message.get("method") != "initialize" and self.headers.get("Mcp-Session-Id") not in (None, self.session):
            self._send(404, b"")
            return
        found = answer(message)
        self._send(202 if found is None else 200, b"" if found is None else json.dumps(found).encode())

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Mcp-Session-Id", self.session)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def http_server() -> http.server.ThreadingHTTPServer:
    """A server on a free port of this machine, in this process; `serve_forever` serves it."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)


def forget_sessions() -> None:
    """Know no session any more, as a server that was restarted."""
    _Handler.session = uuid.uuid4().hex


if __name__ == "__main__":
    _over_stdio()
