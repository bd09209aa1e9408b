"""Tools for tests of the tool protocol: every way to define one. Loaded with OUTLAST_TOOLS_FROM."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import Field

from docs.examples.hello_tools import TOOLS as EXAMPLES
from docs.examples.hello_tools import Colour, greet_all, hello_world
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.llm.contracts import ChatParams
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.phases import ClientPhase, Reply, plain
from outlast.workflows.tools.framework.tool import Arguments, Category, NoArguments, ToolBuilder, tool
from outlast.workflows.tools.framework.tool_context import ToolContext


class Order(Arguments):
    item: str
    amount: int = Field(default=1, ge=1, le=99)


class Priced(Arguments):
    item: str
    total: int


class Confirmed(Arguments):
    confirmed: bool
    comment: str | None = None


class Waiting(Arguments):
    folder: str = Field(description="Where it leaves traces of what happened to it.")
    seconds: float = 0


class Promise(Arguments):
    number: int


def dev(name: str) -> ToolBuilder:
    return tool(name).category(Category.DEV).describe(f"Fixture {name}.")


def text(said: str) -> ToolResult:
    return ToolResult(content=(TextContent(text=said),))


async def price(_ctx: HandlerContext, args: Order) -> Priced | ToolResult:
    if args.item == "nothing":
        return text("There is nothing to order.")
    return Priced(item=args.item, total=args.amount * 3)


async def book(_ctx: HandlerContext, args: Order, reply: Reply[Confirmed]) -> ToolResult:
    done = "Ordered" if reply.answer.confirmed else "Left"
    return text(f"{done} {args.amount} {args.item} for {reply.parameters['total']}, said {reply.answered_by}")


@plain
async def plain_price(args: Order) -> Priced | str | ToolResult:
    if args.item == "gone":
        return text("It is sold out.")
    return Priced(item=args.item, total=args.amount * 3) if args.item != "nothing" else "There is nothing to order."


@plain
async def plain_book(args: Order, reply: Reply[Confirmed]) -> dict[str, Any]:
    return {"item": args.item, "total": reply.parameters["total"], "confirmed": reply.answer.confirmed}


async def report(_ctx: HandlerContext, args: Order) -> ToolResult:
    return ToolResult(content=(TextContent(text="Done"),), structured={"item": args.item})


async def deploy(_ctx: HandlerContext, args: Order) -> ToolResult:
    return text(f"Deployed {args.amount} {args.item}")


@plain(timeout=timedelta(minutes=10))
async def linger(args: Waiting) -> str:
    """Leaves `started` when it starts, and `cancelled` when it is cancelled."""
    folder = Path(args.folder)
    (folder / "started").touch()
    try:
        await asyncio.sleep(args.seconds)
    except asyncio.CancelledError:
        (folder / "cancelled").touch()
        raise
    return "Slept"


@plain(attempts=3)
async def shaky(args: Waiting) -> str:
    """Fails twice as a network does, then works."""
    tries = Path(args.folder) / "tries"
    count = int(tries.read_text()) + 1 if tries.exists() else 1
    tries.write_text(str(count))
    if count < 3:
        raise ConnectionError("the line is cut")
    return f"Worked at try {count}"


@plain(timeout=timedelta(minutes=10))
async def watched(args: Waiting, *, context: ToolContext) -> dict[str, Any]:
    """Says that it is at step 2 of 3, and ends when there is a file `go` in its folder."""
    context.progress(2, total=3, message="Two of three")
    while not (Path(args.folder) / "go").exists():
        await asyncio.sleep(0.05)
    return {
        "task": context.task_id,
        "caller": context.caller_id,
        "session": context.session_id,
        "attempt": context.attempt,
    }


@plain
async def watched_reply(_args: NoArguments, reply: Reply[Confirmed], *, context: ToolContext) -> str:
    return f"{reply.answer.confirmed} for {context.caller_id}"


@plain
async def defective(_args: NoArguments) -> str:
    raise KeyError("password=hunter2hunter2")


@plain
async def refusing(_args: NoArguments) -> str:
    message = "The shop is closed"
    raise ToolFailure(ErrorEnvelope(tool="", message=message, category=ErrorCategory.CONFLICT, retryable=False))


async def broken_promise(_ctx: HandlerContext, _args: NoArguments) -> ToolResult:
    return ToolResult(content=(TextContent(text="see"),), structured={"number": "many"})


CONFIRM = ClientPhase(
    name="confirm", message=lambda given: f"Order for {given['total']}?", answer=Confirmed, parameters=Priced
)
QUICK = timedelta(seconds=1)


TOOLS = [
    hello_world,
    greet_all,
    *EXAMPLES,
    dev("order").args(Order).handoff(price, CONFIRM, book),
    dev("reviewed_order").args(Order).approval(message="Order it?").handoff(price, CONFIRM, book),
    dev("plain_order").args(Order).handoff(plain_price, CONFIRM, plain_book),
    dev("passed_through")
    .args(Order)
    .authority("client")
    .client(ClientPhase(name="ask", message="?", answer=Confirmed))
    .build(),
    dev("shown").args(Order).server(report).client(ClientPhase(name="show", message="See", answer=Confirmed)).build(),
    dev("by_schema")
    .authority("client")
    .client(
        ClientPhase(
            name="ask",
            message="A number?",
            answer={"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]},
        )
    )
    .build(),
    dev("defaulted")
    .authority("client")
    .client(ClientPhase(name="ask", message="?", answer=Colour, deadline=QUICK, default=Colour(colour="grey")))
    .build(),
    dev("impatient")
    .authority("client")
    .client(ClientPhase(name="ask", message="?", answer=Colour, deadline=QUICK))
    .build(),
    dev("deploy").args(Order).approval(message="Deploy?").server(deploy).build(),
    dev("hasty_deploy").args(Order).approval(deadline=QUICK).server(deploy).build(),
    dev("linger").args(Waiting).server(linger).long_running().build(),
    dev("watched").args(Waiting).server(watched).long_running().build(),
    dev("watched_reply")
    .authority("client")
    .client(ClientPhase(name="ask", message="?", answer=Confirmed))
    .server(watched_reply)
    .build(),
    dev("shaky").args(Waiting).server(shaky).build(),
    dev("defective").server(defective).build(),
    dev("refusing").server(refusing).build(),
    dev("broken_promise").output(Promise).server(broken_promise).build(),
]


def mark_calls(params: ChatParams) -> ChatParams:
    """For the model `hooked`: another temperature, and which call of which session it is. For `greedy`: more output."""
    if params.model_id == "greedy":
        return params.model_copy(update={"max_output_tokens": params.max_output_tokens + 1})
    if params.model_id != "hooked":
        return params
    controls = params.controls.model_copy(update={"temperature": 0.25})
    return params.model_copy(update={"controls": controls, "extra": {"user": f"{params.session_id}-{params.step}"}})


CHAT_PARAMS_HOOKS = [mark_calls]
