"""The profile of a session: its tools, serialised once, and the beginning of its prompts."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from outlast.activities.contracts import Caller
from outlast.activities.llm.contracts import ModelControls
from outlast.activities.llm.providers.requests import Definition, canonical_definitions
from outlast.api.access.permissions import PermissionRules, by_name, ids_in
from outlast.api.catalog.builtin_tools import BuiltinTools
from outlast.api.catalog.catalog import Catalogue, log_listing
from outlast.api.catalog.instructions import offered_skills, server_instructions
from outlast.api.catalog.portable_schemas import PortableTool, fitting_names, portable
from outlast.contracts.sessions import SessionRequest
from outlast.workflows.contracts.tool_masks import canonical
from outlast.workflows.contracts.turns import CarriedRule, SessionProfile, ToolSnapshot, TurnTool
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.extensions import extension_entries
from outlast.workflows.tools.framework.selection import TOOL_ALIASES, Selection
from outlast.workflows.tools.loader import tool_set
from outlast.workflows.turns.steps import system_text

DefinitionHook = Callable[[Definition], Definition]
TURN_MODE = "default"
"""A turn waits for its tools, so it uses the mode in which a tool's answer is its result."""
DEFINITION_HOOKS = "DEFINITION_HOOKS"
"""Attribute of a tools module (OUTLAST_TOOLS_FROM): functions from a `Definition` to the one that models see."""
log = logging.getLogger("outlast.api")


async def profile_for(
    request: SessionRequest, catalogue: Catalogue, caller: Caller, *, skills_dir: Path | None, masking: bool
) -> SessionProfile:
    """The profile that all turns of the session share. Definition hooks apply only without `masking`.

    Raises `UnknownToolCalled`.
    """
    loaded = await catalogue.load(Selection(TURN_MODE, request.tools), caller)
    log_listing(loaded, request.tools, caller=caller.id)
    usable = [tool for tool in loaded.tools.values() if not tool.in_front and not tool.needs_connection]
    offered = tool_set(TURN_MODE, usable, loaded.missing_actors)
    names = fitting_names(offered.tools)
    shown = [portable(offered.tools[own], name) for name, own in names.items()]
    skills = await offered_skills(skills_dir, offered)
    mask = canonical(request.tool_mask or None, {**TOOL_ALIASES, **names}) if masking else None
    instructions, hooks = server_instructions(offered, skills, mask=mask), _hooks(masking=masking)
    definitions = canonical_definitions(_defined(tool, hooks) for tool in shown)
    return SessionProfile(
        provider_id=request.provider_id,
        model_id=request.model_id,
        system=system_text(instructions=instructions, own=request.instructions),
        snapshot=ToolSnapshot(definitions_json=definitions, tools=tuple(_turn_tool(tool) for tool in shown)),
        tool_mask=request.tool_mask,
        max_steps=request.max_steps,
        max_output_tokens=request.max_output_tokens,
        controls=request.controls.over(ModelControls()),
        budgets=request.budgets,
        output=request.output,
        asked=request.settings,
    )


async def carried_rules(rules: PermissionRules, caller: Caller, catalogue: Catalogue) -> tuple[CarriedRule, ...]:
    """The operator's rules that apply to `caller`, for calls inside a turn, with Actors by their names.

    Raises `PlatformUnavailable` if the name of an Actor cannot be looked up by its id.
    """
    own = PermissionRules(tuple(rule for rule in rules.rules if rule.fits_caller(caller.id)))
    names = await catalogue.full_names(ids_in(own), caller)
    return tuple(
        CarriedRule(tool=by_name(rule.pattern, names), action=rule.action, text=rule.text, approver=rule.approver)
        for rule in own.rules
    )


def switched_off_rules(profile: SessionProfile, builtin: BuiltinTools) -> tuple[CarriedRule, ...]:
    """Rules against the session's tools that have been switched off since it was opened."""
    offered = builtin.offered(TURN_MODE).tools
    off = (
        tool.name
        for tool in profile.snapshot.tools
        if (tool.name not in offered if tool.actor is None else not builtin.has_actor(split_actor_tool(tool.actor)[0]))
    )
    return tuple(CarriedRule(tool=name, action="deny", text="OUTLAST_BUILTIN_TOOLS") for name in off)


def _hooks(*, masking: bool) -> tuple[DefinitionHook, ...]:
    hooks: tuple[DefinitionHook, ...] = extension_entries(DEFINITION_HOOKS)
    if masking and hooks:
        log.info("%d definition hooks are not applied: tool masks are on", len(hooks))
        return ()
    return hooks


def _defined(tool: PortableTool, hooks: tuple[DefinitionHook, ...]) -> Definition:
    """The tool as a model sees it. Hooks may change everything except the name."""
    definition = Definition(tool.name, tool.description, tool.schema)
    for hook in hooks:
        definition = replace(hook(definition), name=tool.name)
    return definition


def _turn_tool(tool: PortableTool) -> TurnTool:
    definition = tool.definition
    return TurnTool(
        shown=tool.name,
        name=definition.name,
        actor=definition.actor,
        calls_actor=definition.calls_actor,
        planned_actors=definition.planned_actors,
        planned_tasks=definition.planned_tasks,
        has_approval=definition.approval is not None,
        input_schema_json=definition.input_schema_json,
        fields=tool.fields,
    )
