"""Tools made of typed functions: names, texts, schemas, answers, and functions that cannot be tools."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field

from outlast import (
    Arguments,
    Category,
    ErrorCategory,
    FunctionTool,
    ToolContext,
    ToolError,
    ToolFailure,
    ToolResult,
    tool,
)
from outlast.workflows.contracts.written_json import UnusableAnswer
from outlast.workflows.tools.framework import threads
from outlast.workflows.tools.framework.phases import PlainFunction, plain
from outlast.workflows.tools.framework.results import as_result
from tests.support.eventually import eventually

CONTEXT = ToolContext(task_id="t", caller_id="me")


class Forecast(BaseModel):
    city: str
    degrees: int


class Place(BaseModel):
    city: str
    days: int = 1


@tool
def weather(city: str, days: Annotated[int, Field(ge=1, le=5)] = 1, scale: Literal["c", "f"] = "c") -> Forecast:
    """Weather forecast for a city.

    Covers Europe only.

    Args:
        city: Name of the city.
        days: Number of days.

    Returns:
        The forecast.
    """
    return Forecast(city=city, degrees=20 * days)


def run_of(made: FunctionTool[Any, Any]) -> PlainFunction:
    return dict(made.definition.functions)["server"]


async def answer(made: FunctionTool[Any, Any], **arguments: Any) -> Any:
    """What the tool's activity gets from the function, for arguments as a caller sends them."""
    function = run_of(made)
    context = {"context": CONTEXT} if function.takes_context else {}
    return await function(made.definition.parse(arguments), **context)


def test_a_decorated_function_is_still_the_function() -> None:
    assert weather("Prague", days=2) == Forecast(city="Prague", degrees=40)
    assert weather.__doc__ == weather.function.__doc__


def test_name_texts_and_schemas_come_from_the_function() -> None:
    made = weather.definition
    assert (made.name, made.category) == ("weather", Category.DEV)
    assert made.description == "Weather forecast for a city.\n\nCovers Europe only."
    schema: Any = made.input_schema
    assert schema["required"] == ["city"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["city"]["description"] == "Name of the city."
    assert (
        schema["properties"]["days"].items() >= {"description": "Number of days.", "maximum": 5, "default": 1}.items()
    )
    assert schema["properties"]["scale"]["enum"] == ["c", "f"]
    output: Any = made.output_schema
    assert output["anyOf"][0]["properties"]["degrees"]["type"] == "integer"


NUMPY = """Add numbers.

    Parameters
    ----------
    a : int
        The first one.
    """
SPHINX = """Add numbers.

    :param a: The first one.
    """
GOOGLE = """Add numbers.

    Args:
        a: The first one.
    """


@pytest.mark.parametrize("text", [NUMPY, SPHINX, GOOGLE])
def test_every_usual_style_of_docstrings_is_read(text: str) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    add.__doc__ = text
    made: Any = tool(add).definition
    assert made.description == "Add numbers."
    assert made.input_schema["properties"]["a"]["description"] == "The first one."


def test_a_description_in_the_annotation_wins() -> None:
    @tool
    def add(a: Annotated[int, Field(description="From the annotation.")]) -> int:
        """Add.

        Args:
            a: From the docstring.
        """
        return a

    schema: Any = add.definition.input_schema
    assert schema["properties"]["a"]["description"] == "From the annotation."


async def test_a_model_may_be_the_only_parameter() -> None:
    @tool
    async def forecast(place: Place) -> str:
        return f"{place.city}: {place.days}"

    assert await answer(forecast, city="Prague") == "Prague: 1"
    with pytest.raises(ToolError) as error:
        forecast.definition.parse({"city": "Prague", "dayz": 2})
    assert "dayz" in str(error.value.envelope.violations)


async def test_the_context_is_found_by_its_type_and_is_no_argument() -> None:
    @tool
    async def who(greeting: str, call: ToolContext) -> str:
        return f"{greeting}, {call.caller_id}"

    assert list(who.definition.input_schema["properties"]) == ["greeting"]  # pyright: ignore[reportArgumentType]
    assert await answer(who, greeting="Hello") == "Hello, me"


async def test_a_blocking_function_runs_in_a_thread_of_its_own_and_reports_from_it() -> None:
    reported: list[float] = []

    @tool
    def slow(call: ToolContext) -> str:
        call.progress(1, total=2)
        return threading.current_thread().name

    context = ToolContext(task_id="t", caller_id="me", report=lambda progress: reported.append(progress.done))
    name = await run_of(slow)(slow.definition.parse({}), context=context)
    assert name == "slow"
    assert reported == [1]


async def test_threads_that_cancelled_calls_left_behind_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a caller that starts and cancels calls of a function that hangs would fill the worker with threads."""
    monkeypatch.setattr(threads, "_threads", threading.BoundedSemaphore(1))
    go_on, ended = threading.Event(), threading.Event()

    @tool
    def hang() -> str:
        go_on.wait(60)
        ended.set()
        return "done"

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await answer(hang)
    with pytest.raises(ToolFailure, match="Cancelled calls count until") as refused:
        await answer(hang)
    assert (refused.value.envelope.category, refused.value.envelope.retryable) == (ErrorCategory.CAPACITY, True)
    go_on.set()
    assert await asyncio.to_thread(ended.wait, 60)

    async def is_free() -> bool:
        with suppress(ToolFailure):
            return await answer(hang) == "done"
        return False

    await eventually(is_free)


@dataclass
class Point:
    x: int
    y: int


ANSWERS: list[tuple[Any, Any, Any]] = [
    (str, "text", "text"),
    (int, 3, {"result": 3}),
    (list[Point], [Point(1, 2)], {"result": [{"x": 1, "y": 2}]}),
    (Point, Point(1, 2), {"x": 1, "y": 2}),
    (Forecast, {"city": "Prague", "degrees": 3}, {"city": "Prague", "degrees": 3}),
    (Forecast | None, None, {"result": None}),
    (Forecast | None, Forecast(city="Prague", degrees=3), {"result": {"city": "Prague", "degrees": 3}}),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (None, None, "Done."),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), ANSWERS)
async def test_values_are_written_as_their_type_says(annotation: Any, value: Any, expected: Any) -> None:
    async def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    assert await answer(tool(give)) == expected


async def test_a_value_of_another_type_is_an_error_that_says_where() -> None:
    @tool
    async def wrong() -> Forecast:
        return {"city": "Prague", "degrees": "many"}  # pyright: ignore[reportReturnType]

    with pytest.raises(UnusableAnswer, match=r"returned dict, which does not fit its return annotation: degrees: "):
        await answer(wrong)


async def test_a_missing_await_is_named() -> None:
    async def look_up() -> int:
        return 1

    @tool
    async def forgetful() -> int:
        return look_up()  # pyright: ignore[reportReturnType]

    with pytest.raises(UnusableAnswer, match=r"write `await look_up\(\.\.\.\)`"):
        await answer(forgetful)


async def test_what_json_cannot_hold_is_an_error_that_says_where() -> None:
    @tool
    def things() -> dict[str, Any]:
        return {"a": {"b": object()}}

    with pytest.raises(UnusableAnswer, match="the value at /a/b is of type object"):
        await answer(things)


async def test_an_answer_without_await_or_return_type_says_what_to_write() -> None:
    with closing(asyncio.sleep(0)) as awaitable, pytest.raises(UnusableAnswer, match="without `await`"):
        as_result(awaitable)
    with pytest.raises(UnusableAnswer, match="A function under @tool can return other values if"):
        as_result([1])


async def test_a_result_made_by_hand_is_passed_on() -> None:
    result = ToolResult(content=())

    @tool
    async def by_hand() -> Forecast:
        return result  # pyright: ignore[reportReturnType]

    assert await answer(by_hand) is result


def test_options_set_the_attempts_the_hints_and_the_approval() -> None:
    @tool(
        name="pay-bill",
        title="Pay a bill",
        retries=0,
        timeout=20,
        backoff=timedelta(minutes=1),
        retry_on=(KeyError,),
        destructive=True,
        approval=lambda args: args.amount > 100,
    )
    async def pay(amount: int) -> None: ...

    made, function = pay.definition, run_of(pay)
    assert (made.name, made.annotations.title, made.annotations.destructive) == ("pay-bill", "Pay a bill", True)
    assert (function.attempts, function.timeout, function.backoff) == (1, timedelta(seconds=20), timedelta(minutes=1))
    assert function.retry_on == (KeyError,)
    assert made.approval is not None
    assert made.approval.when is not None
    assert [made.approval.when(made.parse({"amount": amount})) for amount in (5, 500)] == [False, True]


def test_a_text_above_a_function_is_its_name() -> None:
    @tool("shout")
    def _shout(text: str) -> str:
        return text.upper()

    assert _shout.definition.name == "shout"


def test_a_name_may_come_with_options() -> None:
    @tool("shout", retries=4)
    def _shout(text: str) -> str:
        return text.upper()

    assert (_shout.definition.name, run_of(_shout).attempts) == ("shout", 5)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retries": "3"}, "retries='3' is not a number of further attempts"),
        ({"retries": -1}, "retries=-1 is not a number of further attempts"),
        ({"timeout": "30s"}, "timeout='30s' is not a time: write seconds above 0"),
        ({"backoff": 0}, "backoff=0 is not a time"),
    ],
)
def test_an_option_of_a_wrong_value_is_refused_by_its_name(options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match="@tool: ") as error:
        tool(**options)(weather.function)
    assert problem in str(error.value)


def with_any(*args: int) -> int:
    return len(args)


def of_object(self, a: int) -> int:  # pyright: ignore[reportMissingParameterType]
    return a


def some() -> Any:
    yield 1


async def some_later() -> Any:
    yield 1


without_type: Callable[..., Any] = lambda a: a  # noqa: E731 (a parameter without a type)
without_type.__name__ = "without_type"


def hidden(_a: int) -> int:
    return _a


def by_place(a: int, /) -> int:
    return a


def unknown_type(a: "Nowhere") -> int:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    return a


def no_schema(a: threading.Thread) -> int:
    return a.native_id or 0


def no_output() -> threading.Thread:
    return threading.current_thread()


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (with_any, "parameter '*args: int' cannot be passed by name"),
        (by_place, "parameter 'a: int' cannot be passed by name"),
        (without_type, "parameter 'a' has no type. Write `a: str`"),
        (of_object, "a method cannot be a tool. Move the function out of its class"),
        (some, "cannot `yield`. Return a list"),
        (some_later, "cannot `yield`. Return a list"),
        (hidden, "rename parameter '_a'"),
        (unknown_type, "name 'Nowhere' is not defined; define or import it before the function"),
        (no_schema, "@tool on no_schema: "),
        (no_output, "@tool on no_output: the return type has no JSON Schema: "),
        (lambda: 1, "Tool '<lambda>': a name has 1 to 64 letters"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason(
    function: Callable[..., Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=r"@tool|a name has") as error:
        tool(function)
    assert problem in str(error.value)


def test_what_is_no_function_and_what_is_no_option_are_refused() -> None:
    with pytest.raises(TypeError, match="takes a function, not <class"):
        tool(Forecast)
    with pytest.raises(TypeError, match="has no option 'retrys'; it has: retries, "):
        tool(retrys=1)(weather.function)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda: tool("mine").category(cast(Any, "text")), "'text' is not a category; use one of: actors, "),
        (lambda: tool("mine").category(cast(Any, ["dev"])), "['dev'] is not a category; use one of: actors, "),
        (lambda: tool("mine").args(cast(Any, int)), ".args() takes a pydantic model, not <class 'int'>"),
    ],
)
def test_a_builder_refuses_what_would_break_later(build: Callable[[], Any], problem: str) -> None:
    async def handler(ctx: object, args: object) -> ToolResult:
        return ToolResult(content=())

    begun = build()
    begun = begun if "category" in problem else begun.category(Category.DEV)
    with pytest.raises(ValueError, match="Tool ") as error:
        begun.describe("Mine.").server(handler).build()
    assert problem in str(error.value)


async def takes_number(x: int) -> str:
    return str(x)


async def takes_another(ctx: object, args: Forecast) -> str:
    return f"{ctx}{args}"


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (plain(takes_number), "gets all arguments as one Place, but its parameter 'x' is of type int"),
        (takes_another, "gets all arguments as one Place, but its parameter 'args' is of type Forecast"),
    ],
)
def test_a_builder_refuses_a_handler_of_other_arguments(handler: Any, problem: str) -> None:
    begun = tool("mine").category(Category.DEV).describe("Mine.").args(Place)
    with pytest.raises(ValueError, match="Tool 'mine': server ") as error:
        begun.server(handler).build()
    assert problem in str(error.value)


def test_a_builder_refuses_unknown_arguments_of_an_ordinary_model() -> None:
    async def handler(ctx: object, args: Place) -> ToolResult:
        return ToolResult(content=())

    made = tool("mine").category(Category.DEV).describe("Mine.").args(Place).server(handler).build()
    with pytest.raises(ToolError):
        made.parse({"city": "Prague", "dayz": 2})


def test_a_model_that_allows_other_names_keeps_them() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")

    @tool
    def mine(args: Open) -> str:
        return str(args.model_extra)

    assert mine.definition.parse({"a": 1}).model_extra == {"a": 1}


def test_arguments_may_be_the_base_model_of_outlast() -> None:
    class Mine(Arguments):
        a: int

    @tool
    def mine(args: Mine) -> int:
        return args.a

    assert mine.definition.arguments is Mine
