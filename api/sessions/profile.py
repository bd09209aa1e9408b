"""The profile of a session: its tools, serialised once, the beginning of its prompts, and the options of its models."""

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from outlast.activities.contracts import Caller
from outlast.activities.llm.contracts import ModelControls
from outlast.activities.llm.providers import models
from outlast.activities.llm.providers.requests import Definition, canonical_definitions
from outlast.api.catalog.builtin_tools import BuiltinTools
from outlast.api.catalog.catalog import Catalogue, log_listing
from outlast.api.catalog.instructions import offered_skills, server_instructions
from outlast.api.catalog.portable_schemas import PortableTool, fitting_names, portable
from outlast.api.errors import BadRequest, ModelForbidden
from outlast.contracts.sessions import MessageRequest, ModelEntry, ProviderEntry, ProviderList, SessionRequest
from outlast.workflows.contracts.sessions import Budgets, SessionProfile, ToolSnapshot, TurnTool
from outlast.workflows.contracts.tool_calls import CarriedRule
from outlast.workflows.contracts.tool_masks import canonical
from outlast.workflows.tools.core.actor_names import split_actor_tool
from outlast.workflows.tools.core.standard_selection import OUTPUT_COMPANIONS
from outlast.workflows.tools.extensions import extension_entries
from outlast.workflows.tools.framework.selection import TOOL_ALIASES, Selection
from outlast.workflows.tools.registry import admitted_tool
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
    offered = loaded.only([tool.name for tool in usable])
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


def switched_off_rules(
    profile: SessionProfile, builtin: BuiltinTools, servers: Collection[str] = ()
) -> tuple[CarriedRule, ...]:
    """Rules against the session's tools that have been switched off since it was opened, or whose MCP server is not
    among `servers` any more.
    """
    offered = {*builtin.offered(TURN_MODE).tools}
    if any(tool.server is not None for tool in profile.snapshot.tools):
        offered.update(OUTPUT_COMPANIONS)

    def switch(tool: TurnTool) -> str | None:
        """The setting that has switched the tool off; None if it is on."""
        if tool.server is not None:
            return None if tool.server.server in servers else "OUTLAST_MCP_SERVERS_FILE"
        is_on = tool.name in offered if tool.actor is None else builtin.has_actor(split_actor_tool(tool.actor)[0])
        return None if is_on else "OUTLAST_BUILTIN_TOOLS"

    off = [(tool.name, text) for tool in profile.snapshot.tools if (text := switch(tool)) is not None]
    return tuple(CarriedRule(tool=name, action="deny", text=text) for name, text in off)


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
        admitted_tool=admitted_tool(definition),
        budget_usd=definition.budget_usd,
        calls_tools=definition.calls_tools,
        server=definition.server,
        input_schema_json=definition.input_schema_json,
        fields=tool.fields,
    )


@dataclass(frozen=True)
class ModelOptions:
    """The options of one turn's model calls."""

    provider_id: str
    model_id: str
    max_output_tokens: int
    controls: ModelControls
    window_tokens: int | None
    """Size of prompt and answer together; None if it is unknown."""
    sees_pictures: bool | None
    """None if it is unknown."""


def model_options(
    profile: SessionProfile,
    request: MessageRequest,
    limits: Mapping[str, models.ModelLimits],
    prices: Mapping[str, models.Price],
) -> ModelOptions:
    """The options of the turn that answers `request`; `limits` and `prices` are the operator's, by `provider/model`.

    Raises `BadRequest` without a model, and for a control that the provider or the model lacks.
    """
    provider_id, model_id = request.provider_id or profile.provider_id, request.model_id or profile.model_id
    if not provider_id or not model_id:
        raise BadRequest("Name the model: set providerId and modelId, in the session or in the message.")
    _check_model(provider_id, model_id, (profile.budgets, request.budgets), limits, prices)
    model = models.model_of(provider_id, model_id, limits)
    controls = request.controls.over(profile.controls)
    max_output_tokens = request.max_output_tokens or profile.max_output_tokens or model.default_output_tokens
    refusal = models.refused_controls(provider_id, model_id, model, controls) or models.refused_output_limit(
        model_id, model, controls, max_output_tokens
    )
    if refusal is not None:
        raise BadRequest(refusal)
    return ModelOptions(provider_id, model_id, max_output_tokens, controls, model.window_tokens, model.sees_pictures)


def provider_list(
    limits: Mapping[str, models.ModelLimits], prices: Mapping[str, models.Price], configured: AbstractSet[str] | None
) -> ProviderList:
    """All providers, each with its families of models and the models in the settings.

    `configured` are those that can be called; None if this is unknown.
    """
    return ProviderList(
        providers=tuple(
            ProviderEntry.model_validate(
                asdict(capabilities)
                | {
                    "id": provider_id,
                    "configured": None if configured is None else provider_id in configured,
                    "takes_any_model": provider_id not in models.KNOWN or f"{provider_id}/{models.ANY}" in limits,
                    "models": _models(provider_id, limits, prices),
                },
                extra="ignore",
            )
            for provider_id, capabilities in models.MATRIX.items()
        )
    )


def _models(
    provider_id: str, limits: Mapping[str, models.ModelLimits], prices: Mapping[str, models.Price]
) -> list[ModelEntry]:
    own = f"{provider_id}/"
    named = {key.removeprefix(own) for key in (*limits, *prices) if key.startswith(own)} - {models.ANY}
    names = [*(f"{start}{models.ANY}" for start in models.KNOWN.get(provider_id, {})), *sorted(named)]
    return [_model(provider_id, name, limits, prices) for name in dict.fromkeys(names)]


def _model(
    provider_id: str, name: str, limits: Mapping[str, models.ModelLimits], prices: Mapping[str, models.Price]
) -> ModelEntry:
    start, is_family = name.removesuffix(models.ANY), name.endswith(models.ANY)
    # The settings of one model do not apply to the family whose names begin with its name.
    fitting = {key: found for key, found in limits.items() if key.endswith(models.ANY)} if is_family else limits
    own = {"name": start, "is_family": is_family, "has_price": f"{provider_id}/{name}" in prices}
    return ModelEntry.model_validate(asdict(models.model_of(provider_id, start, fitting)) | own, extra="ignore")


def check_allowed(provider_id: str | None, model_id: str | None, allowed: Sequence[str]) -> None:
    """Raise `ModelForbidden` unless a pattern in `allowed` (`provider/model`) fits the model, if one is named."""
    if not provider_id or not model_id:
        return
    name = f"{provider_id}/{model_id}".casefold()
    if not any(fnmatchcase(name, pattern.casefold()) for pattern in allowed):
        raise ModelForbidden(
            f"You may not use the model {provider_id[:50]}/{model_id[:100]}. The operator's policy allows you: "
            f"{', '.join(allowed) or 'none'}."
        )


def check_session(
    request: SessionRequest, limits: Mapping[str, models.ModelLimits], prices: Mapping[str, models.Price]
) -> None:
    """Raise `BadRequest` for an unknown provider or model, a budget of money without a price, or an invalid control."""
    provider_id, model_id = request.provider_id, request.model_id
    _check_model(provider_id, model_id, (request.budgets,), limits, prices)
    if provider_id is None:
        return
    model = models.model_of(provider_id, model_id, limits) if model_id is not None else models.Model()
    refusal = models.refused_controls(provider_id, model_id or "", model, request.controls)
    if refusal is None and model_id is not None:
        most = request.max_output_tokens or model.default_output_tokens
        refusal = models.refused_output_limit(model_id, model, request.controls, most)
    if refusal is not None:
        raise BadRequest(refusal)


def _check_model(
    provider_id: str | None,
    model_id: str | None,
    budgets: Sequence[Budgets],
    limits: Mapping[str, models.ModelLimits],
    prices: Mapping[str, models.Price],
) -> None:
    """Raise `BadRequest` for an unknown provider or model, and for a budget of money without the model's price."""
    if provider_id is not None and provider_id not in models.MATRIX:
        raise BadRequest(f"Unknown provider {provider_id[:50]!r}. Use one of: {', '.join(models.MATRIX)}.")
    if provider_id is None or model_id is None or f"{provider_id}/{model_id}" in prices:
        return
    if not models.is_known(provider_id, model_id, limits):
        raise BadRequest(_unknown_model(provider_id, model_id))
    if any(budget.usd is not None for budget in budgets):
        raise BadRequest(
            f"A budget in US dollars needs the price of {provider_id}/{model_id}, which is not known. Leave `usd` out, "
            "or have the operator set the price in OUTLAST_MODEL_PRICES (0 for a model that costs nothing)."
        )


def _unknown_model(provider_id: str, model_id: str) -> str:
    shown = model_id[:100]
    setting = "OUTLAST_MODEL_LIMITS=" + json.dumps({f"{provider_id}/{shown}": {}})
    return (
        f"The provider {provider_id} has no model {shown!r} that is known here. The names of its models begin with: "
        f"{', '.join(models.KNOWN[provider_id])}. If the name is right, have the operator add it: {setting}"
    )
