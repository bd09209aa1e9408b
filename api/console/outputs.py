"""Stored outputs: what they are, and their first rows. They have no list: tasks and sessions lead to them."""

import json
from contextlib import aclosing

from outlast.api.console.framework import Context, Section, View
from outlast.api.console.task import row_of
from outlast.contracts.outputs import OutputSelection

section = Section("Outputs", is_listed=False)
_ROWS = 50
_TEXT_BYTES = 20_000


@section.page("outputs/{locator}", "output.html")
async def output(view: View) -> Context:
    """A stored output with its first rows, or the beginning of its text."""
    outputs, locator = view.services.outputs, view.of_path("locator")
    described = await outputs.describe(view.caller, locator)
    reader = await outputs.open(view.caller, locator)
    if described.kind == "rows":
        pieces = outputs.selected(reader, OutputSelection(limit=_ROWS))
    else:
        pieces = outputs.content(reader, 0, min(_TEXT_BYTES, described.size_bytes))
    async with aclosing(pieces):
        content = b"".join([piece async for piece in pieces])
    rows = [row_of(line) for line in content.splitlines()] if described.kind == "rows" else []
    columns = list(dict.fromkeys(name for row in rows for name in row))[:12]
    text = "" if described.kind == "rows" else _shown(content, described.content_type)
    return {"output": described, "rows": rows, "columns": columns, "text": text}


def _shown(content: bytes, content_type: str) -> str:
    if "json" in content_type:
        try:
            return json.dumps(json.loads(content), indent=2, ensure_ascii=False)
        except ValueError:
            pass
    return content.decode(errors="replace")
