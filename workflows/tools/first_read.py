"""The first read of a tool's handler, found without a workflow.

Such a read can begin before the workflow does, see `worker.eager.read_ahead`.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.handler_api.platform import Storages
from outlast.workflows.tools.registry import UnknownTool, tool_for


@dataclass(frozen=True)
class FirstRead:
    """A read as a workflow asks for it."""

    method: Callable[[Any, Any], Awaitable[Any]]
    """The activity, as its class defines it."""
    request: Any


def first_read_of(call: ToolCall) -> FirstRead | None:
    """What the handler of `call` reads of a storage before anything else; None where it does something else first.

    The handler runs up to there, with the call and its storages only: a handler that needs more of its context first,
    or that waits, is one that does something else. None, too, where a payment of the call's own pays for the read: a
    start that is refused must not have used it.
    """
    if call.is_paid:
        return None
    try:
        tool = tool_for(call)
        handling: object = tool.handler(_Rehearsal(call), tool.parse(call.arguments))  # pyright: ignore[reportArgumentType]  # a part of a context
    except (ToolError, UnknownTool):
        return None
    if not inspect.iscoroutine(handling):
        return None
    try:
        handling.send(None)
    except _Found as found:
        return found.read
    except (StopIteration, AttributeError, ToolError):
        return None
    finally:
        handling.close()
    return None


class _Rehearsal:
    """The part of a `ToolContext` that needs no workflow."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.storages = Storages(call, read=_found)


class _Found(BaseException):
    """Ends a rehearsal. No handler catches it."""

    def __init__(self, read: FirstRead) -> None:
        super().__init__()
        self.read = read


async def _found(
    call: ToolCall,  # noqa: ARG001 (as `QuickReader` has it)
    method: Callable[[Any, Any], Awaitable[Any]],
    request: Any,
    *,
    summary: str,  # noqa: ARG001
) -> NoReturn:
    raise _Found(FirstRead(method, request))
