"""`python notebook_server.py FOLDER`: an MCP server over stdio that keeps lines in FOLDER/lines.txt.

It imports the standard library alone, so that it starts quickly. While FOLDER/extra exists, it has a further tool;
while FOLDER/purpose exists, its text is the description of `add`.
"""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
LINES = FOLDER / "lines.txt"
INSTRUCTIONS = "Add short lines."
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
PICK = {
    "type": "object",
    "properties": {},
    "oneOf": [
        {"properties": {"first": {"type": "integer"}}, "required": ["first"]},
        {"properties": {"last": {"type": "integer"}}, "required": ["last"]},
    ],
}
COUNTED = {"type": "object", "properties": {"lines": {"type": "integer"}}, "required": ["lines"]}
READS = {"readOnlyHint": True}


def tools() -> list[dict[str, Any]]:
    purpose = FOLDER / "purpose"
    text = purpose.read_text() if purpose.exists() else "Add a line."
    listed: list[dict[str, Any]] = [
        {"name": "add", "description": text, "inputSchema": TEXT, "outputSchema": COUNTED},
        {"name": "read", "description": "Read all lines.", "inputSchema": {"type": "object"}, "annotations": READS},
        {"name": "pick.lines", "description": "Pick lines.", "inputSchema": PICK, "annotations": READS},
        {"name": "fail", "description": "Fail.", "inputSchema": {"type": "object"}, "annotations": READS},
    ]
    if (FOLDER / "extra").exists():
        listed.append(
            {"name": "extra", "description": "More.", "inputSchema": {"type": "object"}, "annotations": READS}
        )
    return listed


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    lines = LINES.read_text().splitlines() if LINES.exists() else []
    if name == "add":
        with LINES.open("a") as file:
            file.write(f"{arguments['text']}\n")
        count = len(lines) + 1
        return {"content": [{"type": "text", "text": f"{count} lines"}], "structuredContent": {"lines": count}}
    if name == "pick.lines":
        chosen = lines[: arguments["first"]] if "first" in arguments else lines[-arguments["last"] :]
        return {"content": [{"type": "text", "text": "\n".join(chosen)}]}
    if name == "fail":
        return {"content": [{"type": "text", "text": "The notebook is wet."}], "isError": True}
    return {"content": [{"type": "text", "text": "\n".join(lines)}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "notebook", "version": "1"},
                "instructions": INSTRUCTIONS,
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            return call(params["name"], params.get("arguments") or {})
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        body = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
