"""The tools of each mode, and the set that a connection offers. A new mode is a new folder and one entry in `MODES`."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, Unpack

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.tool_calls import AdmittedTool, ToolCall
from outlast.workflows.contracts.tool_masks import is_active
from outlast.workflows.tools import apify, default, openai
from outlast.workflows.tools.common.abort_actor_run import ABORT_ACTOR_RUN
from outlast.workflows.tools.common.add_actor import ADD_ACTOR
from outlast.workflows.tools.common.batch_tools import BATCH_TOOLS
from outlast.workflows.tools.common.call_schedule_tools import CALL_SCHEDULE_TOOLS
from outlast.workflows.tools.common.fetch_apify_docs import FETCH_APIFY_DOCS
from outlast.workflows.tools.common.get_actor_log import GET_ACTOR_LOG
from outlast.workflows.tools.common.get_actor_output import GET_ACTOR_OUTPUT
from outlast.workflows.tools.common.get_dataset import GET_DATASET
from outlast.workflows.tools.common.get_dataset_items import GET_DATASET_ITEMS
from outlast.workflows.tools.common.get_dataset_schema import GET_DATASET_SCHEMA
from outlast.workflows.tools.common.get_html_skeleton import GET_HTML_SKELETON
from outlast.workflows.tools.common.get_key_value_store import GET_KEY_VALUE_STORE
from outlast.workflows.tools.common.get_key_value_store_keys import GET_KEY_VALUE_STORE_KEYS
from outlast.workflows.tools.common.get_key_value_store_record import GET_KEY_VALUE_STORE_RECORD
from outlast.workflows.tools.common.invalid import INVALID, unknown_tool_envelope
from outlast.workflows.tools.common.list_tabs import LIST_TABS
from outlast.workflows.tools.common.lists import GET_ACTOR_RUN_LIST, GET_DATASET_LIST, GET_KEY_VALUE_STORE_LIST
from outlast.workflows.tools.common.programs import RUN_PROGRAM
from outlast.workflows.tools.common.respond import REACT_EMOJI, SEND_UPDATE
from outlast.workflows.tools.common.restore_tool_output import RESTORE_TOOL_OUTPUT
from outlast.workflows.tools.common.saved_task_tools import SAVED_TASK_TOOLS
from outlast.workflows.tools.common.schedule_tools import SCHEDULE_TOOLS
from outlast.workflows.tools.common.search_apify_docs import SEARCH_APIFY_DOCS
from outlast.workflows.tools.common.skill import LOAD_SKILL_SUPPORTING, SKILL
from outlast.workflows.tools.common.task_tools import TASK_TOOLS
from outlast.workflows.tools.common.workspace import BASH, READ
from outlast.workflows.tools.core.actor_mcp import proxied_call
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.call_actor import actor_tool
from outlast.workflows.tools.core.server_calls import server_call
from outlast.workflows.tools.core.standard_selection import STANDARD
from outlast.workflows.tools.framework.changes import change_of, fitting, kind_of
from outlast.workflows.tools.framework.mode import ActorFacts, Mode
from outlast.workflows.tools.framework.selection import (
    TOOL_ALIASES,
    LoadedChoice,
    Payment,
    Selection,
    SelectionRules,
    without_tags,
)
from outlast.workflows.tools.framework.tool import Tool

_MODES: dict[str, Mode] = {mode.name: mode for mode in (default.MODE, openai.MODE, apify.MODE)}
MODES: Mapping[str, Mode] = MappingProxyType(_MODES)
_OUTLAST_MODES = frozenset(_MODES)

MODE_ALIASES: Mapping[str, str] = MappingProxyType({"apps": "openai", "true": "openai"})

COMMON: tuple[Tool, ...] = (
    *TASK_TOOLS,
    *BATCH_TOOLS,
    *CALL_SCHEDULE_TOOLS,
    ADD_ACTOR,
    GET_ACTOR_RUN_LIST,
    GET_ACTOR_LOG,
    ABORT_ACTOR_RUN,
    GET_DATASET,
    GET_DATASET_ITEMS,
    GET_DATASET_SCHEMA,
    GET_ACTOR_OUTPUT,
    GET_DATASET_LIST,
    GET_KEY_VALUE_STORE,
    GET_KEY_VALUE_STORE_KEYS,
    GET_KEY_VALUE_STORE_RECORD,
    GET_KEY_VALUE_STORE_LIST,
    *SAVED_TASK_TOOLS,
    *SCHEDULE_TOOLS,
    SEARCH_APIFY_DOCS,
    FETCH_APIFY_DOCS,
    GET_HTML_SKELETON,
    LIST_TABS,
    RESTORE_TOOL_OUTPUT,
    REACT_EMOJI,
    SEND_UPDATE,
    RUN_PROGRAM,
)

ON_DEMAND: Mapping[str, Tool] = MappingProxyType(
    {definition.name: definition for definition in (SKILL, LOAD_SKILL_SUPPORTING, READ, BASH)}
)
"""Tools that are offered only if the operator has configured them; every worker can run them."""

HIDDEN: Mapping[str, Tool] = MappingProxyType({INVALID.name: INVALID})
"""Tools that are never listed and cannot be called by name; workflows call them."""

ACTOR_TOOL_LABEL = "actor-tool"
"""Metric label of all direct Actor tools, because their number is unlimited."""
SERVER_TOOL_LABEL = "server-tool"
"""Metric label of all tools of MCP servers in the operator's file."""

_COMMON: list[Tool] = list(COMMON)
"""Tools of all modes: `COMMON`, and those of other packages, which are added when a process starts."""


_MODULES: dict[str, str] = {}
"""Modules of loaded tools, as the operator named them, by the names of the tools."""
_LOADED_MODULES: set[str] = set()


def extend(tools: Sequence[Tool], modes: Sequence[Mode] = (), *, module: str | None = None) -> None:
    """Add modes, and `tools` of `module` to every mode, when a process starts: all of them, or none if one cannot be.

    Raises `ValueError` for a duplicate name, for a mode that changes the category of a common tool, and for an unknown
    companion.
    """
    names = {*HIDDEN, *(name for tools in _BY_MODE.values() for name in tools)}
    for definition in tools:
        if definition.name in names or ON_DEMAND.get(definition.name, definition) is not definition:
            raise ValueError(f"There is a tool {definition.name!r} already; choose another name.")
        names.add(definition.name)
    known = dict(_MODES)
    for mode in modes:
        if mode.name in known:
            raise ValueError(f"There is a mode {mode.name!r} already; choose another name.")
        known[mode.name] = mode
    by_mode = {name: _tools_in(mode, [*_COMMON, *tools]) for name, mode in known.items()}
    _COMMON.extend(tools)
    _MODES.update(known)
    _BY_MODE.update(by_mode)
    if module is not None:
        _LOADED_MODULES.add(module)
        _MODULES.update({one.name: module for one in tools if one.name not in ON_DEMAND})


def offer_on_demand(names: Sequence[str]) -> None:
    """Offer these tools of `ON_DEMAND`, when a process starts. Repeating it changes nothing."""
    extend([ON_DEMAND[name] for name in names if ON_DEMAND[name] not in _COMMON])


def _tools_in(mode: Mode, common: Sequence[Tool]) -> Mapping[str, Tool]:
    """Return the mode's own tools, and the common ones that it does not replace. Raises `ValueError`."""
    own = {definition.name: definition for definition in mode.tools}
    for definition in common:
        if definition.name in own and own[definition.name].category != definition.category:
            raise ValueError(
                f"Mode {mode.name!r}: its tool {definition.name!r} needs the category {definition.category.value!r}, "
                "as in every mode."
            )
    shared = {
        definition.name: mode.dressed(definition)
        for definition in common
        if definition.name not in own and _is_shared(definition, mode)
    }
    tools = {**own, **shared}
    absent = [name for name in mode.companions if name not in tools]
    if absent:
        raise ValueError(f"Mode {mode.name!r} has no tools of the names in its companions: {', '.join(absent)}.")
    return MappingProxyType(tools)


def _is_shared(definition: Tool, mode: Mode) -> bool:
    """Return whether the mode has this common tool. Tools of other packages are in every mode."""
    return mode.shares is None or definition.name in mode.shares or definition not in COMMON


_BY_MODE: dict[str, Mapping[str, Tool]] = {mode.name: _tools_in(mode, COMMON) for mode in MODES.values()}


class UnknownTool(Exception):
    """The call names a tool or a mode that does not exist."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        super().__init__(envelope.message)
        self.envelope = envelope


def tools_of(mode: str) -> tuple[Tool, ...]:
    """Return the tools of `mode` except those of single Actors. Raises `UnknownTool` for an unknown mode."""
    return tuple(_mode_tools(mode).values())


def loaded_tools() -> tuple[str, ...]:
    """Names of the tools that the operator has loaded: they are in the default set of every connection."""
    return tuple(one.name for one in _COMMON[len(COMMON) :] if one.name not in ON_DEMAND)


def own_tools(mode: str) -> frozenset[str]:
    """Names of the tools of `mode` that are not Outlast's, or that the operator has enabled (`ON_DEMAND`).

    Raises `UnknownTool` for an unknown mode.
    """
    added = () if mode in _OUTLAST_MODES else _mode(mode).tools
    return frozenset(one.name for one in (*_COMMON[len(COMMON) :], *added))


def companions_of(mode: str) -> tuple[Tool, ...]:
    """Return the tools that every connection in `mode` has. Raises `UnknownTool` for an unknown mode."""
    return tuple(_mode_tools(mode)[name] for name in _mode(mode).companions)


def selection_rules(mode: str) -> SelectionRules:
    """Return the rules for selecting tools in `mode`. Raises `UnknownTool` for an unknown mode."""
    return _mode(mode).selection or STANDARD


def actor_tool_of(mode: str, actor: str, **facts: Unpack[ActorFacts]) -> Tool:
    """Return the direct tool of `actor` as `mode` offers it."""
    own = _mode(mode)
    if own.actor_tools is not None:
        return own.dressed(own.actor_tools(own.executor, actor, **facts))
    purpose = own.actor_tool_purpose.replace("{actor}", actor)
    return own.dressed(actor_tool(own.executor, actor, purpose=purpose, **facts))


def mcp_tools_of(mode: str, actor: str, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the tools of an Actor that is an MCP server under their names in `mode`."""
    named = _mode(mode).mcp_tool_names
    if named is None:
        return tools
    names = named(actor, [split_actor_tool(definition.actor or "")[1] or "" for definition in tools])
    return tuple(replace(definition, name=name) for definition, name in zip(tools, names, strict=True))


def tells_changes(call: ToolCall) -> bool:
    """Return whether the answer has a text about changed arguments, see `Mode`."""
    known = MODES.get(call.mode)
    return known is None or known.tells_changes


def admitted_tool(tool: Tool) -> AdmittedTool | None:
    """Return what a call records of its tool; None for a tool of Outlast."""
    module = _MODULES.get(tool.name)
    return AdmittedTool(module=module, kind=kind_of(tool), version=tool.version) if module is not None else None


def change_of_tool(mode: str, name: str, admitted: AdmittedTool | None) -> str | None:
    """Return the change because of which an open call cannot continue in this process; None if its tool fits."""
    if admitted is None or mode not in MODES:
        return None
    return change_of(name, admitted, _BY_MODE[mode].get(name), _LOADED_MODULES)


def version_of_tool(mode: str, name: str, admitted: AdmittedTool | None) -> Tool:
    """Return the loaded tool in the version of a call. Raises `UnknownTool` or `ToolChanged`."""
    tools = _mode_tools(mode)
    definition = tools.get(name) or ON_DEMAND.get(name) or HIDDEN.get(name)
    if admitted is None and definition is None:
        raise unknown_tool(name, tuple(tools))
    return fitting(name, admitted, definition, _LOADED_MODULES)


def tool_for(call: ToolCall) -> Tool:
    """Return the definition for `call`, in its version. Raises `UnknownTool` or `ToolChanged`."""
    tools = _mode_tools(call.mode)
    if call.server is not None:
        return server_call(call)
    if call.proxies_mcp:
        return proxied_call(call)
    if call.actor is not None:
        # The entry point has checked the arguments against the Actor's schema, and the platform checks them again.
        return actor_tool_of(call.mode, call.actor, title=call.tool, description=call.tool, schema={})
    definition = tools.get(call.tool) or ON_DEMAND.get(call.tool) or HIDDEN.get(call.tool)
    if definition is None and call.admitted_tool is None:
        raise unknown_tool(call.tool, tuple(name for name in tools if is_active(name, call.tool_mask)))
    return fitting(call.tool, call.admitted_tool, definition, _LOADED_MODULES)


def executor_kind(call: ToolCall) -> Literal["none", "sync", "async"]:
    """Return the executor that decides when the call's handler returns."""
    if call.proxies_mcp or call.server is not None:
        return "none"
    definition = None if call.actor else _known(call.mode).get(call.tool)
    if call.mode not in MODES or (call.actor is None and (definition is None or not definition.calls_actor)):
        return "none"
    own = definition.executor_kind if definition is not None else None
    return own or MODES[call.mode].executor.kind


def metric_label(call: ToolCall) -> str:
    """Return the call's tool as a label with few values."""
    if call.actor is not None:
        return ACTOR_TOOL_LABEL
    if call.server is not None:
        return SERVER_TOOL_LABEL
    return call.tool if call.tool in _known(call.mode) else "unknown"


def _known(mode: str) -> Mapping[str, Tool]:
    return {**HIDDEN, **ON_DEMAND, **_BY_MODE[mode]} if mode in MODES else {}


def unknown_tool(name: str, known: tuple[str, ...]) -> UnknownTool:
    """Return the error for an unknown tool, which lists the known ones and similar names."""
    return UnknownTool(unknown_tool_envelope(name, known))


def _mode(name: str) -> Mode:
    if name not in MODES:
        raise UnknownTool(
            ErrorEnvelope.permanent(
                ErrorCategory.VALIDATION, "", f"There is no mode {name!r}.", hint=f"Choose one of: {', '.join(MODES)}."
            )
        )
    return MODES[name]


def _mode_tools(name: str) -> Mapping[str, Tool]:
    return _BY_MODE[_mode(name).name]


ActorLoader = Callable[[str], Awaitable[tuple[Tool, ...]]]
"""Function that loads the direct tool of an Actor, or the tools of an MCP server; none if it cannot be loaded."""


@dataclass(frozen=True)
class ToolSet:
    """The tools of one connection by name. Immutable: adding a tool returns a new set."""

    mode: str
    tools: Mapping[str, Tool]
    missing_actors: tuple[str, ...] = field(default=())
    missing_servers: tuple[str, ...] = field(default=())
    """Selected MCP servers whose tools are not known."""
    server_instructions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Instructions of the MCP servers that have tools in the set, by server."""

    def get(self, name: str) -> Tool:
        """Return the tool with this name or alias. Raises `UnknownTool` that lists the tools of the set."""
        definition = self.tools.get(name) or self.tools.get(TOOL_ALIASES.get(name, ""))
        if definition is None:
            raise unknown_tool(name, tuple(self.tools))
        return definition

    def including(self, *more: Tool) -> "ToolSet":
        """Return this set with the tools of `more` that it does not have."""
        added = {definition.name: definition for definition in more if definition.name not in self.tools}
        return replace(self, tools=MappingProxyType({**self.tools, **added}))

    def only(self, names: Collection[str]) -> "ToolSet":
        """Return this set without other tools than `names`."""
        return replace(self, tools=MappingProxyType({name: one for name, one in self.tools.items() if name in names}))


def base_tools(mode: str) -> ToolSet:
    """Return all tools of `mode` except direct Actor tools. Raises `UnknownTool` for an unknown mode."""
    return tool_set(mode, tools_of(mode))


def normalised_mode(mode: str) -> str:
    """Return the name of a mode for an older name of it (`apps`, `true`)."""
    return MODE_ALIASES.get(mode, mode)


async def load_tools(
    selection: Selection, load_actor: ActorLoader, available: Mapping[str, Tool] | None = None
) -> ToolSet:
    """Return the tools of `selection`, which are among `available` (default: all of the mode) or tools of Actors.

    Raises `UnknownTool` for an unknown mode, and `UnknownTag`.
    """
    available = base_tools(selection.mode).tools if available is None else available
    rules = selection_rules(selection.mode)
    selection = replace(
        selection,
        selectors=None if selection.selectors is None else without_tags(selection.selectors, available.values()),
        default_selectors=without_tags(selection.default_selectors, available.values()),
    )
    choice = rules.choose(selection, available)
    of_servers = (name for name, definition in available.items() if definition.server is not None)
    loaded_by_default = () if selection.selectors is not None else (*loaded_tools(), *of_servers)
    own = (available[name] for name in loaded_by_default if name in available and available[name] not in choice.tools)
    chosen = _payable((*choice.tools, *own), selection.payment)
    loaded = {actor: _payable(await load_actor(actor), selection.payment) for actor in choice.actors}
    actor_tools = tuple(definition for definitions in loaded.values() for definition in definitions)
    companions = tuple(one for one in companions_of(selection.mode) if one.name in available)
    tools = rules.arrange(selection, LoadedChoice(chosen, actor_tools, available, companions))
    if selection.payment is not None:
        tools = [selection.payment.applied_to(definition) for definition in tools]
    missing = tuple(actor for actor, definitions in loaded.items() if not definitions)
    return tool_set(selection.mode, tools, missing)


def _payable(tools: tuple[Tool, ...], payment: Payment | None) -> tuple[Tool, ...]:
    """Return the tools that the connection's payment can pay, or all if the account pays."""
    return tuple(definition for definition in tools if payment is None or payment.can_pay(definition))


def tool_set(mode: str, tools: Iterable[Tool], missing: tuple[str, ...] = ()) -> ToolSet:
    """Return a set of `tools`, with the first tool of each name."""
    by_name: dict[str, Tool] = {}
    for definition in tools:
        by_name.setdefault(definition.name, definition)
    return ToolSet(mode, MappingProxyType(by_name), missing)
