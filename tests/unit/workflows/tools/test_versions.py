"""Versions of tools, changes because of which an open call waits, and defaults of call options."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from outlast import Category, FunctionTool, ToolContext, tool
from outlast.workflows.contracts.tool_calls import AdmittedTool, ToolKind
from outlast.workflows.tools.framework.changes import ToolChanged, change_of, fitting, kind_of
from outlast.workflows.tools.framework.tool import Tool

MODULE = "my_tools.py"


def weather_tool() -> FunctionTool[..., Any]:
    @tool(version=3, retries=0, title="Weather")
    def weather(place: str, days: int) -> str:
        """Weather of a place."""
        return f"{place}: {days}"

    @weather.version(1)
    def weather_1(city: str) -> int:
        """Weather of a city."""
        return len(city)

    assert weather_1("Oslo") == 4
    return weather


def admitted(version: int = 1, kind: ToolKind = ToolKind.FUNCTION) -> AdmittedTool:
    return AdmittedTool(module=MODULE, kind=kind, version=version)


async def in_workflow(_ctx: object, _arguments: object) -> str:
    return "handled"


class City(BaseModel):
    city: str


def handler_tool() -> Tool:
    return tool("weather").category(Category.DEV).describe("Weather.").args(City).server(in_workflow).build()


def test_an_older_version_has_its_own_parameters_and_the_tools_options() -> None:
    definition = weather_tool().definition
    older = fitting("weather", admitted(1), definition, [MODULE])
    assert (definition.version, older.version, older.name) == (3, 1, "weather")
    assert list(older.input_schema["properties"]) == ["city"]  # pyright: ignore[reportArgumentType]
    assert (older.functions[0][1].attempts, older.annotations.title) == (1, "Weather")
    assert fitting("weather", admitted(3), definition, [MODULE]) is definition


def test_a_call_that_recorded_no_version_was_made_with_the_first_one() -> None:
    definition = weather_tool().definition
    assert fitting("weather", None, definition, [MODULE]).version == 1
    newest = tool(version=2)(city_of).definition
    assert fitting("city_of", None, newest, [MODULE]) is newest


def city_of(city: str) -> str:
    return city


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "1"])
def test_a_version_is_a_positive_number(number: Any) -> None:
    with pytest.raises(ValueError, match="is not the number of a version"):
        tool(version=number)(city_of)


@pytest.mark.parametrize(("number", "words"), [(1, "not taken"), (3, "below 3"), (4, "below 3")])
def test_an_older_version_has_a_lower_number_that_is_not_taken(number: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        weather_tool().version(number)


def test_an_older_version_may_not_hide_the_newest_one() -> None:
    made = tool(version=2)(city_of)
    with pytest.raises(ValueError, match="write `def city_of_1"):
        made.version(1)(city_of)


async def with_context(city: str, ctx: ToolContext) -> str:
    return f"{city}{ctx.attempt}"


def contextual() -> Tool:
    return tool(name="weather")(with_context).definition


@pytest.mark.parametrize(
    ("loaded", "version", "kind", "modules", "change"),
    [
        (lambda: None, 1, ToolKind.FUNCTION, [MODULE], "my_tools.py no longer has the tool `weather`"),
        (lambda: None, 1, ToolKind.FUNCTION, [], "my_tools.py, which had the tool `weather`, is no longer loaded"),
        (contextual, 2, ToolKind.FUNCTION, [MODULE], "my_tools.py has no version 2 of the tool `weather`, only 1"),
        (
            handler_tool,
            1,
            ToolKind.CONTEXT_FUNCTION,
            [MODULE],
            "The tool `weather` of my_tools.py was a function with a context and is now a workflow handler",
        ),
        (
            contextual,
            1,
            ToolKind.HANDLER,
            [MODULE],
            "The tool `weather` of my_tools.py was a workflow handler and is now a function with a context",
        ),
        (contextual, 1, ToolKind.FUNCTION, [MODULE], None),
    ],
)
def test_a_change_is_named_with_module_tool_and_version(
    loaded: Callable[[], Tool | None], version: int, kind: ToolKind, modules: list[str], change: str | None
) -> None:
    assert change_of("weather", admitted(version, kind), loaded(), modules) == change
    if change is not None:
        with pytest.raises(ToolChanged, match="continues when the tool fits again; to end it, cancel the task"):
            fitting("weather", admitted(version, kind), loaded(), modules)


def test_the_kind_of_a_tool_is_how_it_runs() -> None:
    assert kind_of(contextual()) is ToolKind.CONTEXT_FUNCTION
    assert kind_of(weather_tool().definition) is ToolKind.FUNCTION
    assert kind_of(handler_tool()) is ToolKind.HANDLER


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reuse": "soon", "read_only": True}, "reuse='soon' is not an age"),
        ({"reuse": "90d", "read_only": True}, "reuse='90d' is not an age"),
        ({"reuse": "10m"}, "add read_only=True"),
        ({"reuse": "10m", "read_only": True, "approval": True}, "leave approval= out"),
        ({"budget_usd": 0}, "budget_usd=0 is not an amount in US dollars"),
        ({"budget_usd": "much"}, "budget_usd='much' is not an amount in US dollars"),
    ],
)
def test_defaults_of_call_options_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tool(**options)(city_of)


def test_defaults_of_call_options_are_those_of_calls() -> None:
    made = tool(read_only=True, reuse=90, budget_usd=0.1)(city_of).definition
    assert (made.reuse, made.budget_usd) == ("90s", Decimal("0.1"))
