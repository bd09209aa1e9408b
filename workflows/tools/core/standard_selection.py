"""The rules by which connections choose tools, in every mode that has none of its own."""

from collections.abc import Mapping

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
"""Offered whenever an Actor can be called."""
TASK_COMPANIONS = ("get-task", "list-tasks", "cancel-task", "answer-task")
"""Offered whenever a call may outlast its connection: clients without tasks get the result with these."""
OUTPUT_COMPANIONS = ("restore-tool-output",)
"""Offered whenever an answer may be stored."""
BATCH_COMPANIONS = ("get-batch", "get-batch-results", "cancel-batch")
"""Offered whenever a batch can be started."""


def read(mode: str, parameters: Parameters) -> Selection:
    """The selection in `tools`, `actors` and `payment`. Raises `UnknownName`, and `ValueError` for other payments."""
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
    """The tools and Actors that the selectors name. A selector that is neither a category nor a tool is an Actor."""
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
    """The chosen tools, those of Actors, the mode's companions; those for runs, tasks, stored outputs and batches."""
    tools = [*loaded.tools, *loaded.actor_tools, *loaded.companions]
    names: list[str] = []
    if any(definition.calls_actor for definition in tools):
        names += RUN_COMPANIONS
    if any(definition.may_outlast_connection for definition in tools):
        names += TASK_COMPANIONS
    if any(definition.may_store for definition in tools):
        names += OUTPUT_COMPANIONS
    if any(definition.name == "start-batch" for definition in tools):
        names += BATCH_COMPANIONS
    return [*tools, *(loaded.available[name] for name in names if name in loaded.available)]


STANDARD = SelectionRules(read=read, choose=choose, arrange=arrange)


def _last(parameters: Parameters, name: str) -> Parameters:
    """The last value counts of a parameter that was given more than once."""
    return {name: values[-1:]} if (values := parameters.get(name)) else {}
