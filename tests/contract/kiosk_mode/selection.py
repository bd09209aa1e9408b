"""How connections choose at the kiosk: `shelf` names tools and Actors, `ui` what is seen, and `tools` nothing."""

from collections.abc import Mapping

from outlast.workflows.tools.framework.selection import (
    Choice,
    LoadedChoice,
    Parameters,
    Selection,
    SelectionRules,
    names_in,
)
from outlast.workflows.tools.framework.tool import Tool
from tests.contract.kiosk_mode.coins import COINS


def read(mode: str, parameters: Parameters) -> Selection:
    """Raises `ValueError` on Sundays."""
    shelf = names_in(parameters, "shelf")
    if shelf == ("sunday",):
        raise ValueError("The kiosk is closed on Sundays.")
    payment = COINS if parameters.get("payment") == ["coins"] else None
    ui = (parameters.get("ui") or [""])[-1]
    return Selection(mode=mode, selectors=shelf, payment=payment, options=(("ui", ui),))


def choose(selection: Selection, available: Mapping[str, Tool]) -> Choice:
    """The tools and Actors on the shelf: without one, everything."""
    named = tuple(available) if selection.selectors is None else selection.selectors
    chosen = tuple(available[name] for name in named if name in available)
    return Choice(chosen, tuple(name for name in named if name not in available))


def arrange(selection: Selection, loaded: LoadedChoice) -> list[Tool]:
    """By name, the last one first. The window is for those who see it."""
    tools = {each.name: each for each in (*loaded.tools, *loaded.actor_tools, *loaded.companions)}
    if not shows_apps(selection):
        tools.pop("look", None)
    return [tools[name] for name in sorted(tools, reverse=True)]


def shows_apps(selection: Selection) -> bool:
    """Whether the connection sees the window: as it says, or as its client can."""
    return selection.option("ui") == "window" or selection.client.shows_apps


RULES = SelectionRules(
    read=read,
    choose=choose,
    arrange=arrange,
    reads_ui=True,
    environment=(("shelf", "KIOSK_SHELF"),),
    shows_clients=True,
    shows_apps=shows_apps,
)
