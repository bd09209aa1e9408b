"""How every read from outside is carried out."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from activities.failing import as_activity_failure
from activities.heartbeat import heartbeating


@asynccontextmanager
async def reading() -> AsyncGenerator[None]:
    """Failures become envelopes, and heartbeats tell a slow answer from a worker that has died."""
    with as_activity_failure():
        async with heartbeating():
            yield
