"""Progressive discovery: a connection with many tools lists three, with which a model finds and calls the others.

The size of the list, and so the beginning of a model's prompt, stays the same whatever servers offer. The search is
SQLite's full-text index (FTS5, BM25) over names, descriptions and arguments.
"""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any, cast

from cachetools import LRUCache

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.api.errors import ForbiddenScope, tool_error
from outlast.api.local_calls import LocalCall
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.contracts.tool_masks import resolve
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools import registry
from outlast.workflows.tools.common.discovery_tools import (
    CALL_TOOL,
    DISCOVERY_TOOLS,
    CallToolArguments,
    DescribeToolsArguments,
    SearchToolsArguments,
)
from outlast.workflows.tools.core.standard_selection import STANDARD
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Tool

_MAX_INDEXES = 20
_MAX_SUMMARY_CHARS = 200
_NAMES = frozenset(one.name for one in DISCOVERY_TOOLS)
_BEST_FIRST = "SELECT tool FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 0.0, 8.0, 3.0, 1.0), rowid LIMIT ?"
"""The weights are those of the columns `tool`, which is not searched, `name`, `description` and `arguments`."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
"""`getUserById2` and `get_user_by_id_2` have the same words."""
_STOP_WORDS = frozenset(
    "a an and are as at by can do for from how i in is it my of on or that the this to what with".split()
)


def with_discovery(tools: registry.ToolSet, limit: int) -> registry.ToolSet:
    """Return the tools of a connection, with those of discovery if it has more than `limit` tools that are not
    Outlast's. A limit of 0 is none. Modes with their own rules of selection, and connections with other tools of these
    names, have no discovery.
    """
    if not limit or registry.selection_rules(tools.mode) is not STANDARD or len(_found_by_search(tools)) <= limit:
        return tools
    return tools if _NAMES & tools.tools.keys() else tools.including(*DISCOVERY_TOOLS)


def has_discovery(tools: registry.ToolSet) -> bool:
    """Return whether a connection finds tools by search. The operator may have another tool of the same name."""
    return tools.tools.get(CALL_TOOL.name) is CALL_TOOL


def listed(tools: registry.ToolSet) -> registry.ToolSet:
    """Return the tools that `tools/list` has: all, or those that are not found by search."""
    if not has_discovery(tools):
        return tools
    return tools.only(tools.tools.keys() - {one.name for one in _found_by_search(tools)})


def _found_by_search(tools: registry.ToolSet) -> list[Tool]:
    outlasts = registry.base_tools(tools.mode).tools.keys() - registry.own_tools(tools.mode)
    hidden_from_search = outlasts | _NAMES if has_discovery(tools) else outlasts
    return [one for one in tools.tools.values() if one.name not in hidden_from_search]


class _Index:
    """The full-text index of the tools of a connection. One search at a time: SQLite's connection is shared."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = {one.name: one for one in tools}
        """Keeps the definitions alive, so that no other object gets the identity of one of them."""
        self._lock = Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(
            "CREATE VIRTUAL TABLE tools USING fts5(tool UNINDEXED, name, description, arguments, "
            "tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        self._database.executemany("INSERT INTO tools VALUES (?, ?, ?, ?)", map(_row, tools))

    def best(self, matching: str, limit: int, among: Container[str] | None) -> list[Tool]:
        most = limit if among is None else len(self.tools)
        with self._lock:
            rows = self._database.execute(_BEST_FIRST, (matching, most))
            return list(islice((self.tools[name] for (name,) in rows if among is None or name in among), limit))


def wrapped_call(tools: registry.ToolSet, name: str, arguments: Mapping[str, Any] | None) -> CallToolArguments | None:
    """Return the call that a `call-tool` contains; None for other calls, and for invalid arguments."""
    if name != CALL_TOOL.name or not has_discovery(tools):
        return None
    try:
        return CALL_TOOL.parse(arguments or {})
    except ToolError:
        return None


Describe = Callable[[registry.ToolSet], Sequence[Mapping[str, Any]]]
"""Returns the definitions of tools, as the client gets them."""


class ToolSearch:
    """Searches and describes the tools of connections. Connections with the same tools share an index."""

    def __init__(self) -> None:
        self._indexes: LRUCache[tuple[int, ...], _Index] = LRUCache(_MAX_INDEXES)
        self._building = asyncio.Lock()

    async def answer(
        self, call: LocalCall, tools: registry.ToolSet, describe: Describe, names: Mapping[str, str] | None = None
    ) -> ToolResult:
        """Return the answer to a call of `search-tools` or `describe-tools`, or why `call-tool` calls nothing.

        `names` has the tools' own names by those shown to the client, where they differ.
        """
        names = names or {}
        shown = {own: name for name, own in names.items()}
        try:
            call.principal.require("read")
            match call.definition.parse(call.arguments):
                case SearchToolsArguments(query=query, limit=limit):
                    active = resolve(tools.tools, call.mask).active if call.mask is not None else None
                    found = await self.search(tools, query, limit, among=active)
                    return as_result({"tools": [summary_of(one, shown.get(one.name)) for one in found]})
                case DescribeToolsArguments(names=wanted):
                    described = registry.tool_set(tools.mode, [tools.get(names.get(name, name)) for name in wanted])
                    return as_result({"tools": describe(described)})
                case _:
                    message = f"`{CALL_TOOL.name}` cannot call itself."
                    raise ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, CALL_TOOL.name, message))
        except (ToolError, registry.UnknownTool) as error:
            return ToolResult.failed(error.envelope)
        except ForbiddenScope as error:
            return ToolResult.failed(tool_error(error, call.definition.name))

    async def search(
        self, tools: registry.ToolSet, query: str, limit: int, *, among: Container[str] | None
    ) -> list[Tool]:
        """Return the tools that match best, of those that are not listed; of `among` only, unless it is None. A tool
        need not match every word.
        """
        words = dict.fromkeys(word for word in _words(query) if word not in _STOP_WORDS)
        if not words:
            return []
        matching = " OR ".join(f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in words)
        index = await self._index(tools)
        return await asyncio.to_thread(index.best, matching, limit, among)

    async def _index(self, tools: registry.ToolSet) -> _Index:
        searched = _found_by_search(tools)
        key = tuple(map(id, searched))
        async with self._building:
            index = self._indexes.get(key)
            if index is None:  # 10,000 tools take a second
                index = self._indexes[key] = await asyncio.to_thread(_Index, searched)
        return index


def summary_of(tool: Tool, name: str | None = None) -> JsonObject:
    """Return what a search shows of a tool, under `name` if it is not shown under its own."""
    description = " ".join(tool.description.split())
    if len(description) > _MAX_SUMMARY_CHARS:
        description = description[: _MAX_SUMMARY_CHARS - 1] + "…"
    required: Any = tool.input_schema.get("required") or []
    return {"name": name or tool.name, "description": description, "required": list(required)}


def _row(tool: Tool) -> tuple[str, str, str, str]:
    """Return the columns of the index: with words of the name, and names and descriptions of the arguments."""
    properties = tool.input_schema.get("properties")
    texts: list[str] = []
    for name, schema in cast("dict[str, Any]", properties if isinstance(properties, dict) else {}).items():
        described = cast("dict[str, Any]", schema).get("description") if isinstance(schema, dict) else None
        texts += [*_words(name), described if isinstance(described, str) else ""]
    description = f"{tool.annotations.title} {tool.description}"
    return tool.name, " ".join(_words(tool.name)), description, " ".join(texts)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]
