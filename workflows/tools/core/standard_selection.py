"""The default rules by which connections select tools."""

from collections.abc import Collection, Mapping

from outlast.workflows.contracts.unknown_fields import unknown_name
from outlast.workflows.tools.core.payments import SCHEMES
from outlast.workflows.tools.framework.selection import (
    TOOL_ALIASES,
    Choice,
    LoadedChoice,
    Parameters,
    Selection,
    SelectionRules,
    UnknownName,
    names_in,
)
from outlast.workflows.tools.framework.tool import Category, Tool

_PARAMETERS = ("mode", "ui", "tools", "actors", "payment")
RUN_COMPANIONS = ("get-actor-run", "get-actor-output")
"""Offered with tools that call Actors."""
TASK_COMPANIONS = ("get-task", "list-tasks", "cancel-task", "answer-task")
"""Offered with calls that may outlast their connection, for clients without support for tasks."""
OUTPUT_COMPANIONS = ("restore-tool-output",)
"""Offered with tools whose answers may be stored."""
BATCH_COMPANIONS = ("get-batch", "get-batch-results", "cancel-batch")
"""Offered with the tool that starts batches."""


def read(mode: str, parameters: Parameters) -> Selection:
    """Read `tools`, `actors` and `payment`. Raises `UnknownName`, and `ValueError` for other payments."""
    unknown = next((name for name in parameters if name not in _PARAMETERS), None)
    if unknown is not None:
        raise UnknownName(unknown_name("parameter", unknown, _PARAMETERS))
    payment = (parameters.get("payment") or [""])[-1]
    if payment and payment not in SCHEMES:
        raise ValueError(f"Unknown payment {payment[:50]!r}. `payment` must be one of: {', '.join(SCHEMES)}.")
    return Selection(
        mode=mode,
        selectors=names_in(_last(parameters, "tools"), "tools"),
        actors=names_in(_last(parameters, "actors"), "actors") or (),
        payment=SCHEMES[payment] if payment else None,
    )


def choose(selection: Selection, available: Mapping[str, Tool]) -> Choice:
    """Choose tools and Actors by the selectors. A selector that is neither a category nor a tool is an Actor."""
    default = selection.selectors is None
    selectors = selection.default_selectors if selection.selectors is None else selection.selectors
    tools: list[Tool] = []
    actors: list[str] = list(selection.default_actors) if default else []
    for selector in selectors:
        name = selector if selector in available else TOOL_ALIASES.get(selector, selector)
        if name in set(Category):
            tools += [definition for definition in available.values() if definition.category == name]
        elif name in available:
            tools.append(available[name])
        else:
            actors.append(name)
    every_actor = dict.fromkeys([*actors, *selection.actors, *selection.added_actors])
    return Choice(tuple(tools), tuple(every_actor))


def arrange(_selection: Selection, loaded: LoadedChoice) -> list[Tool]:
    """Add the tools of Actors and the companions for runs, tasks, stored outputs and batches to the chosen tools."""
    tools = [*loaded.tools, *loaded.actor_tools, *loaded.companions]
    return [*tools, *(loaded.available[name] for name in companion_names(tools) if name in loaded.available)]


def companion_names(tools: Collection[Tool]) -> list[str]:
    """Return the names of the tools that collect the results of `tools`."""
    names: list[str] = []
    if any(definition.calls_actor for definition in tools):
        names += RUN_COMPANIONS
    if any(definition.may_outlast_connection for definition in tools):
        names += TASK_COMPANIONS
    if any(definition.may_store for definition in tools):
        names += OUTPUT_COMPANIONS
    if any(definition.name == "start-batch" for definition in tools):
        names += BATCH_COMPANIONS
    return names


STANDARD = SelectionRules(read=read, choose=choose, arrange=arrange)


def _last(parameters: Parameters, name: str) -> Parameters:
    """Return the parameter with its last value only."""
    return {name: values[-1:]} if (values := parameters.get(name)) else {}
