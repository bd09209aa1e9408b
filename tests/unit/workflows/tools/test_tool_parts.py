"""Which parts of a tool go together; what does not is refused when the tool is defined, with what to write instead."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.phases import ClientPhase, Reply, plain
from outlast.workflows.tools.framework.results import as_result
from outlast.workflows.tools.framework.tool import Category, NoArguments, Tool, ToolBuilder, tool
from outlast.workflows.tools.framework.tool_context import ToolContext


class Answer(BaseModel):
    colour: str


async def handler(_ctx: HandlerContext, _args: NoArguments) -> ToolResult:
    return ToolResult()


async def after(_ctx: HandlerContext, _args: NoArguments, _reply: Reply[Answer]) -> ToolResult:
    return ToolResult()


async def merge(_ctx: HandlerContext, _args: NoArguments, _result: ToolResult, _reply: Reply[Answer]) -> ToolResult:
    return ToolResult()


@plain
async def merge_function(_args: NoArguments, _result: ToolResult, _reply: Reply[Answer]) -> str:
    return ""


@plain
async def function(_args: NoArguments) -> str:
    return ""


@plain
async def after_function(_args: NoArguments, _reply: Reply[Answer]) -> str:
    return ""


@plain
async def contextual(_args: NoArguments, *, context: ToolContext) -> str:
    context.progress(1, message="one")
    return context.task_id


@plain
async def positional_context(_args: NoArguments, context: ToolContext) -> str:
    return context.task_id


async def undecorated(_args: NoArguments) -> str:
    return ""


PHASE = ClientPhase(name="pick", message="Which?", answer=Answer)


def begun() -> ToolBuilder:
    return tool("t").category(Category.DEV).describe("d")


LEGAL: dict[str, Callable[[], Tool]] = {
    "server": lambda: begun().server(handler).build(),
    "plain server": lambda: begun().server(function).build(),
    "plain server with a context": lambda: begun().server(contextual).build(),
    "server, then client": lambda: begun().server(handler).client(PHASE).build(),
    "server, client, merge": lambda: begun().server(handler).client(PHASE, merge=merge).build(),
    "server, client, plain merge": lambda: begun().server(handler).client(PHASE, merge=merge_function).build(),
    "explicit server authority": lambda: begun().authority("server").server(function).client(PHASE).build(),
    "client, then pass-through": lambda: begun().authority("client").client(PHASE).build(),
    "client, then server": lambda: begun().server(after).client(PHASE).authority("client").build(),
    "client, then plain server": lambda: begun().authority("client").client(PHASE).server(after_function).build(),
    "hand-off": lambda: begun().handoff(handler, PHASE, after),
    "plain hand-off": lambda: begun().authority("server").handoff(function, PHASE, after_function),
    "approval": lambda: begun().approval().server(handler).build(),
    "approval and hand-off": lambda: begun().approval(when=bool).handoff(handler, PHASE, after),
}

ILLEGAL: dict[str, tuple[Callable[[], Any], str]] = {
    "nothing": (lambda: begun().build(), r"call \.server\(handler\)"),
    "an authority of nobody": (lambda: begun().authority("both"), "takes 'server' or 'client'"),  # type: ignore[arg-type]
    "client authority without a client": (
        lambda: begun().authority("client").server(after).build(),
        r"call \.client\(ClientPhase\(\.\.\.\)\), or leave",
    ),
    "a client phase that nobody decides on": (
        lambda: begun().client(PHASE).build(),
        r"call \.server\(handler\), or say \.authority\('client'\)",
    ),
    "merge with client authority": (
        lambda: begun().authority("client").client(PHASE, merge=merge).server(after).build(),
        r"put merge's work into \.server\(handler\)",
    ),
    "a merge that takes no result": (
        lambda: begun().server(handler).client(PHASE, merge=after).build(),
        r"merge takes .*\(ctx, arguments, result, reply\)",
    ),
    "a plain merge that takes no result": (
        lambda: begun().server(handler).client(PHASE, merge=after_function).build(),
        r"merge takes a plain function of \(arguments, result, reply\)",
    ),
    "hand-off with client authority": (
        lambda: begun().authority("client").handoff(handler, PHASE, after),
        r"write \.client\(phase\)\.server\(after\)\.build\(\)",
    ),
    "hand-off and server": (lambda: begun().server(handler).handoff(handler, PHASE, after), "into before or after"),
    "hand-off and client": (lambda: begun().client(PHASE).handoff(handler, PHASE, after), r"drop \.client\(\)"),
    "hand-off without before": (
        lambda: begun().handoff(None, PHASE, after),  # type: ignore[arg-type]
        r"write \.authority\('client'\)\.client\(phase\)\.server\(after\)",
    ),
    "hand-off of no phase": (
        lambda: begun().handoff(handler, Answer, after),  # type: ignore[arg-type]
        r"\.handoff\(before, ClientPhase\(",
    ),
    "client of no phase": (
        lambda: begun().server(handler).client(Answer).build(),  # type: ignore[arg-type]
        r"\.client\(ClientPhase\(",
    ),
    "two clients": (lambda: begun().client(PHASE).client(PHASE).server(handler).build(), "call it once"),
    "two servers": (lambda: begun().server(handler).server(function).build(), "call it once"),
    "two approvals": (lambda: begun().approval().approval().server(handler).build(), "call it once"),
    "two authorities": (
        lambda: begun().authority("client").authority("server").server(handler).build(),
        "call it once",
    ),
    "front door and server": (lambda: begun().server(handler).front_door().build(), r"leave \.front_door\(\) out"),
    "front door and approval": (lambda: begun().approval().front_door().build(), r"leave \.front_door\(\) out"),
    "a plain function without @plain": (lambda: begun().server(undecorated).build(), "gets @plain above it"),
    "a server that wants a reply and gets none": (
        lambda: begun().server(after).build(),
        r"async def handler\(ctx, arguments\)",
    ),
    "a server that takes no reply": (
        lambda: begun().authority("client").client(PHASE).server(handler).build(),
        r"async def handler\(ctx, arguments, reply\)",
    ),
    "a plain server that takes no reply": (
        lambda: begun().authority("client").client(PHASE).server(function).build(),
        r"async def function\(arguments, reply\)",
    ),
    "an after that takes no reply": (lambda: begun().handoff(handler, PHASE, handler), r"after takes .*reply"),
    "a before that wants a reply": (lambda: begun().handoff(after, PHASE, after), r"before takes .*\(ctx, arguments\)"),
    "a context that is no keyword": (
        lambda: begun().server(positional_context).build(),
        r"plain function of \(arguments\)",
    ),
    "a server that is no function": (lambda: begun().server("run").build(), "under @plain"),  # type: ignore[arg-type]
    "a plain function that starts runs": (lambda: begun().server(function, calls_actor=True).build(), "ctx.runs"),
    "an approval without time": (lambda: begun().approval(deadline=timedelta(0)), "longer than zero"),
    "a phase without name": (lambda: ClientPhase(name=" ", message="?", answer=Answer), "needs a name"),
    "a phase without time": (
        lambda: ClientPhase(name="p", message="?", answer=Answer, deadline=timedelta(0)),
        "longer than zero",
    ),
    "a phase whose answer is no object": (
        lambda: ClientPhase(name="p", message="?", answer={"type": "string"}),
        "the answer is an object",
    ),
    "a default that does not fit": (
        lambda: ClientPhase(name="p", message="?", answer=Answer, default={"color": "red"}),
        "leave it out to have the call fail",
    ),
    "plain, but not async": (lambda: plain(lambda args: "x"), "async def"),  # type: ignore[arg-type,return-value]
    "plain, but never tried": (lambda: plain(attempts=0)(undecorated), "one attempt or more"),
}


@pytest.mark.parametrize("define", LEGAL.values(), ids=LEGAL)
def test_what_goes_together_becomes_a_frozen_tool(define: Callable[[], Tool]) -> None:
    definition = define()
    assert isinstance(definition, Tool)
    with pytest.raises(AttributeError):
        definition.client = None  # type: ignore[misc]


@pytest.mark.parametrize(("define", "says"), ILLEGAL.values(), ids=ILLEGAL)
def test_what_does_not_go_together_says_what_to_write_instead(define: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        define()


def test_nothing_runs_in_parallel() -> None:
    assert not hasattr(ToolBuilder, "parallel")


def test_a_builder_that_was_refused_can_be_mended() -> None:
    builder = begun().client(PHASE)
    with pytest.raises(ValueError, match="needs a server phase"):
        builder.build()
    assert builder.server(handler).build().client is PHASE


async def test_a_plain_function_is_still_a_function() -> None:
    assert await function(NoArguments()) == ""


async def test_a_function_with_a_context_is_called_without_a_task_too() -> None:
    assert await contextual(NoArguments(), context=ToolContext(task_id="t", caller_id="me")) == "t"


def test_what_is_no_answer_is_a_defect() -> None:
    with pytest.raises(TypeError, match="not NoneType"):
        as_result(None)
    assert as_result({"a": 1}).structured == {"a": 1}
    assert as_result(Answer(colour="red")).text == '{"colour": "red"}'
