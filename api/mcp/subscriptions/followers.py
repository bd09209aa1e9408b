"""Work on behalf of a session of the older era: it ends when the session does."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from outlast.api.mcp.protocol.eras import Context

_STATE = "outlast_followers"
_Followers = dict[str, "asyncio.Task[None]"]


def follow(ctx: Context, key: str, following: Coroutine[Any, Any, None]) -> None:
    """Carry `following` out until it ends, `unfollow` is called with its key, or the session of `ctx` has ended.

    What was followed under the same key is not followed any more.
    """
    unfollow(ctx, key)
    followers = _followers_of(ctx)
    follower = asyncio.create_task(following)
    followers[key] = follower
    follower.add_done_callback(lambda done: _forget(followers, key, done))


def unfollow(ctx: Context, key: str) -> None:
    """Stop what is followed under `key`, if anything is."""
    follower = _followers_of(ctx).pop(key, None)
    if follower is not None:
        follower.cancel()


def followed(ctx: Context, prefix: str) -> int:
    """How much is followed under keys that begin with `prefix`."""
    return sum(key.startswith(prefix) for key in _followers_of(ctx))


def _followers_of(ctx: Context) -> _Followers:
    # A request's context leads to its connection, which alone knows of the session's end, by no public way.
    connection = ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    known = connection.state.get(_STATE)
    if known is not None:
        return cast(_Followers, known)
    followers: _Followers = {}
    connection.state[_STATE] = followers
    connection.exit_stack.callback(_cancel_all, followers)
    return followers


def _cancel_all(followers: _Followers) -> None:
    for follower in list(followers.values()):
        follower.cancel()


def _forget(followers: _Followers, key: str, done: "asyncio.Task[None]") -> None:
    if followers.get(key) is done:
        del followers[key]
