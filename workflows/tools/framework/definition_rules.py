"""Rules for combining the parts of a tool. An invalid definition is rejected with the code to write instead."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from pydantic import BaseModel

from outlast.workflows.tools.framework.frozen_json import SchemaText
from outlast.workflows.tools.framework.handlers import (
    Handler,
    Part,
    before_client_after,
    client_then_server,
    server_handler,
    server_then_client,
)
from outlast.workflows.tools.framework.phases import Approval, Authority, ClientPhase, PlainFunction


@dataclass
class Parts:
    """The given parts of one definition."""

    authority: Authority = Authority.SERVER
    server: Part | None = None
    client: ClientPhase | None = None
    before: Part | None = None
    after: Part | None = None
    merge: Part | None = None
    output_text: SchemaText | None = None
    approval: Approval | None = None
    in_front: bool = False
    calls_actor: bool = False
    given: list[str] = field(default_factory=list[str])
    """Names of the called builder steps in their order, with repetitions."""

    @property
    def functions(self) -> tuple[tuple[str, PlainFunction], ...]:
        """The plain functions, with the names of their steps."""
        parts = (("server", self.server), ("before", self.before), ("after", self.after), ("merge", self.merge))
        return tuple((step, part) for step, part in parts if isinstance(part, PlainFunction))

    @property
    def is_handed_off(self) -> bool:
        """True if the parts come from `.handoff()`."""
        return "handoff" in self.given


def handler_of(name: str, parts: Parts) -> Handler | None:
    """Return the handler that runs the parts, if any. Raises `ValueError` for parts that conflict."""
    for problem in _problems(parts):
        raise ValueError(f"Tool {name!r}: {problem}")
    if parts.is_handed_off:
        assert parts.before is not None
        assert parts.client is not None
        assert parts.after is not None
        return before_client_after(parts.before, parts.client, parts.after)
    if parts.client is not None and parts.authority is Authority.CLIENT:
        return client_then_server(parts.client, parts.server)
    if parts.server is None:
        return None
    if parts.client is None:
        return server_handler(parts.server)
    return server_then_client(parts.server, parts.client, parts.merge, parts.output_text)


def _problems(parts: Parts) -> Iterator[str]:
    yield from _repeated(parts)
    if parts.in_front and (parts.server or parts.client or parts.approval or parts.is_handed_off):
        yield "a front-door tool is answered by the front door alone: leave .front_door() out, or the other phases."
    if parts.is_handed_off:
        yield from _of_handoff(parts)
    else:
        yield from _of_authority(parts)
    if parts.calls_actor and parts.functions:
        yield (
            "a plain function cannot start runs that the task looks after: write a workflow handler "
            "(`async def handler(ctx, arguments)`) and start them with ctx.runs."
        )
    yield from _of_signatures(parts)


def _repeated(parts: Parts) -> Iterator[str]:
    for step in ("authority", "client", "server", "approval"):
        if parts.given.count(step) > 1:
            yield f".{step}() is called twice: call it once, with what is meant."


def _of_handoff(parts: Parts) -> Iterator[str]:
    if parts.authority is Authority.CLIENT:
        yield ".handoff() is for server authority: with client authority write .client(phase).server(after).build()."
    if "server" in parts.given:
        yield ".handoff(before, client, after) is the whole server side: put .server()'s work into before or after."
    if "client" in parts.given:
        yield ".handoff(before, client, after) names the client phase itself: drop .client()."
    if not isinstance(parts.client, ClientPhase):  # pyright: ignore[reportUnnecessaryComparison]  # authors may err
        yield ".handoff() takes a ClientPhase as its second part: .handoff(before, ClientPhase(name=..., ...), after)."
    if parts.before is None or parts.after is None:
        yield ".handoff() needs three parts; without a before write .authority('client').client(phase).server(after)."


def _of_authority(parts: Parts) -> Iterator[str]:
    if parts.client is not None and not isinstance(parts.client, ClientPhase):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield ".client() takes a ClientPhase: .client(ClientPhase(name=..., message=..., answer=Model))."
    if parts.authority is Authority.CLIENT and parts.merge is not None:
        yield "with client authority the server sees the client's answer: put merge's work into .server(handler)."
    if parts.authority is Authority.CLIENT and parts.client is None:
        yield (
            "with client authority the client runs first: call .client(ClientPhase(...)), or leave "
            ".authority('client') out."
        )
    if parts.client is not None and parts.authority is Authority.SERVER and parts.server is None:
        yield (
            "with server authority a client phase needs a server phase that decides: call .server(handler), or say "
            ".authority('client') to have the client run first."
        )


def _of_signatures(parts: Parts) -> Iterator[str]:
    first = parts.authority is Authority.CLIENT and not parts.is_handed_off
    expected: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
        (".server()", parts.server, ("reply",) if first else ()),
        ("before", parts.before, ()),
        ("after", parts.after, ("reply",)),
        ("merge", parts.merge, ("result", "reply")),
    )
    for where, part, more in expected:
        if part is not None and (problem := _signature_problem(part, ("arguments", *more))):
            yield f"{where} {problem}"


def _signature_problem(part: Any, names: tuple[str, ...]) -> str | None:
    arguments = ", ".join(names)
    if isinstance(part, PlainFunction):
        context = {"context": None} if part.takes_context else {}
        if _takes(part.function, len(names), **context):
            return None
        return f"takes a plain function of ({arguments}): write `async def function({arguments})` under @plain."
    if not callable(part):
        return f"takes a handler: write `async def handler(ctx, {arguments})`, or a function under @plain."
    if _takes(part, len(names) + 1):
        return None
    return (
        f"takes workflow code of (ctx, {arguments}): write `async def handler(ctx, {arguments})`; a plain "
        f"function of ({arguments}) gets @plain above it."
    )


def _takes(function: Callable[..., Any], count: int, **keywords: None) -> bool:
    """Return whether the function can be called with so many positional arguments, and these keywords."""
    try:
        inspect.signature(function).bind(*[None] * count, **keywords)
    except TypeError:
        return False
    return True


def annotation_problem(parts: Parts, model: type[BaseModel] | None) -> str | None:
    """Return why a step cannot take the arguments, which it gets as one `model`; a dict for a JSON Schema."""
    for step, part in (("server", parts.server), ("before", parts.before), ("after", parts.after)):
        function = part.function if isinstance(part, PlainFunction) else part
        place = 0 if isinstance(part, PlainFunction) else 1
        if not inspect.isfunction(function) or len(names := list(inspect.signature(function).parameters)) <= place:
            continue
        try:
            kind: Any = get_type_hints(function).get(names[place])
        except NameError:  # a name that only type checkers import
            continue
        is_value = kind in (bool, bytes, float, int, list, str)
        is_other = isinstance(kind, type) and _is_model(kind) and model is not None and not issubclass(model, kind)
        if is_value or is_other:
            wanted = model.__name__ if model is not None else "dict"
            return (
                f": {step} gets all arguments as one {wanted}, but its parameter {names[place]!r} is of type "
                f"{getattr(kind, '__name__', kind)}. Write `{names[place]}: {wanted}` and its fields in .args(model), "
                "or @tool without a builder, which takes typed parameters."
            )
    return None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
