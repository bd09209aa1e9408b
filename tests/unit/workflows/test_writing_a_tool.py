"""What docs/writing-a-tool.md shows is what works."""

import re
from pathlib import Path
from typing import Any

import pytest

from outlast import FunctionTool

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "writing-a-tool.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
EXAMPLES = "\n\n".join(path.read_text() for path in (DOCS / "examples").glob("*hello*.py"))


def test_the_first_tool_takes_five_lines() -> None:
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 5
    names: dict[str, Any] = {"__name__": "shown"}
    exec(compile(BLOCKS[0], "writing-a-tool.md", "exec"), names)  # it is our own page
    shown = names["hello_world"]
    assert isinstance(shown, FunctionTool)
    assert shown.definition.name == "hello_world"


@pytest.mark.parametrize("block", BLOCKS[1:])
def test_every_other_piece_is_in_the_examples(block: str) -> None:
    def squeezed(text: str) -> str:
        return re.sub(r'"""[^"]*"""|\s|\(\)|,(?=\))', "", text)

    pieces = [piece for piece in re.sub(r'"""[^"]*"""', "", block).strip().split("\n\n") if piece]
    missing = [piece for piece in pieces if squeezed(piece) not in squeezed(EXAMPLES)]
    assert missing == []
