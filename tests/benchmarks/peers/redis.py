"""A real Redis with an append-only file, which is what its manual has for data that must outlive it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.benchmarks.peers.environments import program
from tests.benchmarks.peers.processes import started
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.stacks.stack_config import clean_environment

MOST_CONNECTIONS = 1_000
"""Of one process: the 100 that redis-py allows by itself are too few for 64 callers, and their calls then hang."""


def redis_server() -> str:
    """The program. Raises `NotInstalledError`."""
    return program("fastmcp", "redis-server", "redis-server")


@asynccontextmanager
async def running_redis(folder: Path) -> AsyncGenerator[str]:
    """The URL that its clients use."""
    port = free_port()
    where = ("--port", port, "--bind", "127.0.0.1", "--dir", folder)
    async with started((redis_server(), *where, "--appendonly", "yes"), folder / "redis.log", clean_environment()):
        await eventually(lambda: "Ready to accept connections" in (folder / "redis.log").read_text())
        yield f"redis://127.0.0.1:{port}/0?max_connections={MOST_CONNECTIONS}"
