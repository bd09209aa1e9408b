"""An MCP server that knows its users by a secret: over stdio in the variable TOKEN, over HTTP as bearer token.

`who` returns a digest of the secret and the number of calls of this process or session; `leak` shows the secret.
Over HTTP, `needs` says which methods a request without a secret may not use.
"""

import hashlib
import http.server
import json
import os
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_READ_ONLY = {"readOnlyHint": True}
_TOOLS: list[dict[str, Any]] = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
    for name, hints in (("who", _READ_ONLY), ("leak", _READ_ONLY), ("change", {}))
]


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()[:12]


def answer(message: dict[str, Any], secret: str, calls: int) -> dict[str, Any] | None:
    method, number = message.get("method"), message.get("id")
    if number is None or method is None:
        return None
    if method == "initialize":
        result: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "secrets", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [*_TOOLS, *([{**_TOOLS[0], "name": f"of-{digest(secret)}"}] if secret else [])]}
    elif method == "tools/call" and message["params"]["name"] == "leak":
        result = {"content": [{"type": "text", "text": f"The secret is {secret}."}], "isError": True}
    elif method == "tools/call":
        told = {"who": digest(secret), "calls": calls}
        result = {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told}
    else:
        return {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": f"no {method}"}}
    return {"jsonrpc": "2.0", "id": number, "result": result}


@dataclass
class SecretServer:
    """A server over HTTP: what it needs, and what was sent to it."""

    url: str = ""
    needs: frozenset[str] = frozenset({"initialize", "tools/list", "tools/call"})
    accepted: set[str] = field(default_factory=set[str])
    """Secrets that it accepts; empty for all."""
    challenge: str | None = None
    seen: list[str] = field(default_factory=list[str])
    """Values of the header Authorization."""


@contextmanager
def serving_secrets() -> Iterator[SecretServer]:
    served, sessions = SecretServer(), dict[str, int]()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            given = self.headers.get("Authorization", "")
            secret = given.removeprefix("Bearer ")
            served.seen.append(given)
            is_good = bool(secret) and (not served.accepted or secret in served.accepted)
            if message.get("method") in served.needs and not is_good:
                self._send(401, b"", "")
                return
            session = self.headers.get("Mcp-Session-Id") or uuid.uuid4().hex
            sessions[session] = sessions.get(session, 0) + (message.get("method") == "tools/call")
            found = answer(message, secret, sessions[session])
            self._send(202 if found is None else 200, b"" if found is None else json.dumps(found).encode(), session)

        def do_GET(self) -> None:
            self._send(405, b"", "")

        def do_DELETE(self) -> None:
            self._send(200, b"", "")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def _send(self, status: int, body: bytes, session: str) -> None:
            self.send_response(status)
            if session:
                self.send_header("Mcp-Session-Id", session)
            if status == 401 and served.challenge:
                self.send_header("WWW-Authenticate", served.challenge)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    secret, calls = os.environ.get("TOKEN", ""), 0
    sys.stderr.write(f"started with {secret}\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        calls += message.get("method") == "tools/call"
        if (found := answer(message, secret, calls)) is not None:
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
