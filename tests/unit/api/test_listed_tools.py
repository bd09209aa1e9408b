"""Entries of `tools/list`: clients and providers cache them, so one that needs no repair keeps its bytes.

`listed_tools.txt` has digests of the entries of 2026-11-27, when their texts were put in plain words: mode, tool,
digest for 2026-07-28, digest for older revisions. After an intended change of a tool, name the tool in `CHANGED`; the
digests stay.
"""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from outlast.api.catalog.portable_schemas import repaired
from outlast.api.mcp.tool_lists import own_schema, tool_entries
from outlast.workflows.tools.registry import MODES, base_tools

LISTED = [line.split() for line in Path(__file__).with_name("listed_tools.txt").read_text().splitlines()]
MAX_WAIT_SECONDS = 50
CHANGED: frozenset[str] = frozenset()


def digests(mode: str, *, legacy: bool) -> dict[str, str]:
    entries = tool_entries(base_tools(mode), legacy=legacy, max_wait_seconds=MAX_WAIT_SECONDS)
    return {entry["name"]: sha256(json.dumps(entry, ensure_ascii=False).encode()).hexdigest()[:16] for entry in entries}


@pytest.mark.parametrize("mode", sorted({line[0] for line in LISTED}))
@pytest.mark.parametrize("legacy", [False, True])
def test_entries_have_the_same_bytes_as_ever(mode: str, legacy: bool) -> None:
    expected = {line[1]: line[3 if legacy else 2] for line in LISTED if line[0] == mode}
    listed = digests(mode, legacy=legacy)
    assert expected.keys() <= listed.keys()
    assert {name for name, digest in expected.items() if listed[name] != digest} <= CHANGED


@pytest.mark.parametrize("mode", sorted(MODES))
def test_no_tool_of_ours_needs_a_repair_and_each_is_listed_with_its_own_schema(mode: str) -> None:
    tools = base_tools(mode)
    assert [definition.name for definition in tools.tools.values() if mode != "apify" and repaired(definition)] == []
    for entry in tool_entries(tools, legacy=True, max_wait_seconds=MAX_WAIT_SECONDS):
        schema = own_schema(tools.tools[entry["name"]], mode, MAX_WAIT_SECONDS)
        assert json.dumps(entry["inputSchema"]) == json.dumps(schema)
