"""Tools for tests of who runs first: each order of phases, patient and with one second for the client."""

from datetime import timedelta
from typing import Any

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.phases import ClientPhase, Reply, plain
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolBuilder, tool


class Purchase(Arguments):
    item: str = "tea"
    bytes: int = 0


class Bought(Arguments):
    item: str
    price: int
    padding: str = ""
    seen: bool = False


class Seen(Arguments):
    seen: bool
    remark: str | None = None


async def buy(_ctx: HandlerContext, args: Purchase) -> ToolResult:
    """The work that costs money."""
    bought = Bought(item=args.item, price=3, padding="x" * args.bytes)
    return ToolResult(content=(TextContent(text=f"Bought {args.item}"),), structured=bought.model_dump())


async def sold_out(_ctx: HandlerContext, _args: Purchase) -> ToolResult:
    envelope = ErrorEnvelope.permanent(ErrorCategory.CONFLICT, "sold_out", "There is no tea.")
    return ToolResult.failed(envelope)


async def price(_ctx: HandlerContext, args: Purchase) -> dict[str, Any]:
    return {"item": args.item, "price": 3}


async def decide(_ctx: HandlerContext, args: Purchase, reply: Reply[Seen]) -> dict[str, Any]:
    return {"item": args.item, "price": 3, "seen": reply.answer.seen}


async def merged(_ctx: HandlerContext, _args: Purchase, result: ToolResult, reply: Reply[Seen]) -> dict[str, Any]:
    return {**(result.structured or {}), "seen": reply.answer.seen}


CLOSED = ErrorEnvelope.permanent(ErrorCategory.CONFLICT, "", "The shop has closed.")


@plain
async def plainly_merged(_args: Purchase, result: ToolResult, reply: Reply[Seen]) -> dict[str, Any]:
    if reply.answer.remark == "refuse":
        raise ToolFailure(CLOSED)
    if reply.answer.remark == "break":
        raise KeyError("hunter2")
    return {**(result.structured or {}), "seen": reply.answer.seen}


async def badly_merged(_ctx: HandlerContext, _args: Purchase, _result: ToolResult, reply: Reply[Seen]) -> Any:
    if reply.answer.remark == "refuse":
        return ToolResult.failed(CLOSED)
    if reply.answer.remark == "break":
        raise KeyError("hunter2")
    return {"seen": "perhaps"}


QUICK = timedelta(seconds=1)
NAME, DEFAULT = "look", Seen(seen=False, remark="by default")


def _begun(name: str) -> ToolBuilder:
    return tool(name).category(Category.DEV).describe(f"Fixture {name}.").args(Purchase)


def _tools(suffix: str, deadline: timedelta | None, default: Seen | None = None) -> list[Tool]:
    look = ClientPhase(name=NAME, message="Look", answer=Seen, deadline=deadline, default=default)
    return [
        _begun(f"server_client{suffix}").output(Bought).server(buy).client(look).build(),
        _begun(f"server_client_server{suffix}").output(Bought).server(buy).client(look, merge=merged).build(),
        _begun(f"plain_merge{suffix}").output(Bought).server(buy).client(look, merge=plainly_merged).build(),
        _begun(f"hand_off{suffix}").handoff(price, look, decide),
        _begun(f"client_server{suffix}").authority("client").client(look).server(decide).build(),
        _begun(f"client_only{suffix}").authority("client").client(look).build(),
    ]


def _unfit(_parameters: object) -> str:
    raise LookupError("hunter2")


TOOLS = [
    *_tools("", None),
    *_tools("_quick", QUICK),
    *_tools("_default", QUICK, DEFAULT),
    _begun("sold_out").server(sold_out).client(ClientPhase(name=NAME, message="Look", answer=Seen)).build(),
    _begun("bad_message").server(buy).client(ClientPhase(name=NAME, message=_unfit, answer=Seen)).build(),
    _begun("bad_merge")
    .output(Bought)
    .server(buy)
    .client(ClientPhase(name=NAME, message="Look", answer=Seen), merge=badly_merged)
    .build(),
]
