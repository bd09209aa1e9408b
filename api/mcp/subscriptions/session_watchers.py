"""Background work for a session of 2025-11-25. It ends when the session does."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, cast

from outlast.api.access.principal import Principal
from outlast.api.errors import CredentialEnded
from outlast.api.mcp.protocol.versions import Context

_STATE = "outlast_watchers"
_Watchers = dict[str, "asyncio.Task[None]"]


def start_watcher(ctx: Context, principal: Principal, key: str, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends, until `stop_watcher` is called with `key`, or until the session of `ctx` ends.

    It also ends with the credential of `principal`, who asked for it. It replaces the session's watcher with the same
    key.
    """
    stop_watcher(ctx, key)
    watchers = _watchers_of(ctx)
    watcher = asyncio.create_task(_bound(principal, work))
    watchers[key] = watcher
    watcher.add_done_callback(lambda done: _forget(watchers, key, done))


async def _bound(principal: Principal, work: Coroutine[Any, Any, None]) -> None:
    with suppress(CredentialEnded):
        async with principal.lease():
            await work


def stop_watcher(ctx: Context, key: str) -> None:
    """Stop the watcher with `key`, if there is one."""
    watcher = _watchers_of(ctx).pop(key, None)
    if watcher is not None:
        watcher.cancel()


def count_watchers(ctx: Context, prefix: str) -> int:
    """How many watchers the session has whose keys begin with `prefix`."""
    return sum(key.startswith(prefix) for key in _watchers_of(ctx))


def _watchers_of(ctx: Context) -> _Watchers:
    # Only the connection learns of the session's end, and the SDK gives no public way from a request to it.
    connection = ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    known = connection.state.get(_STATE)
    if known is not None:
        return cast(_Watchers, known)
    watchers: _Watchers = {}
    connection.state[_STATE] = watchers
    connection.exit_stack.callback(_cancel_all, watchers)
    return watchers


def _cancel_all(watchers: _Watchers) -> None:
    for watcher in list(watchers.values()):
        watcher.cancel()


def _forget(watchers: _Watchers, key: str, done: "asyncio.Task[None]") -> None:
    if watchers.get(key) is done:
        del watchers[key]
