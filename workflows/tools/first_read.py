"""The first read of a tool's handler, found without a workflow, so that `worker.eager_worker` can begin it early."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.handler_api.platform import Storages
from outlast.workflows.tools.framework.changes import ToolChanged
from outlast.workflows.tools.registry import UnknownTool, tool_for


@dataclass(frozen=True)
class FirstRead:
    """An activity that reads, as its class defines it, and its input."""

    method: Callable[[Any, Any], Awaitable[Any]]
    request: Any


def first_read_of(call: ToolCall) -> FirstRead | None:
    """Find the read of a storage that the handler of `call` begins with; None if it begins with something else.

    The handler runs up to that read, with the call and its storages only. A handler that first needs more of its
    context, or waits, begins with something else. None also if the call's payment pays for the read: a rejected start
    must not have used it.
    """
    if call.is_paid:
        return None
    try:
        tool = tool_for(call)
        handling: object = tool.handler(_Rehearsal(call), tool.parse(call.arguments))  # pyright: ignore[reportArgumentType]  # a part of a context
    except (ToolChanged, ToolError, UnknownTool):
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
    """The part of a `HandlerContext` that needs no workflow."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.storages = _RehearsedStorages(call)


class _RehearsedStorages(Storages):
    async def _read(self, method: Callable[[Any, Any], Awaitable[Any]], request: Any, summary: str) -> NoReturn:  # noqa: ARG002
        raise _Found(FirstRead(method, request))


class _Found(BaseException):
    """Ends a rehearsal. No handler catches it."""

    def __init__(self, read: FirstRead) -> None:
        super().__init__()
        self.read = read
