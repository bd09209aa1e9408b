"""Where a request comes from, for the records that are written while it is served."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

REQUEST_ID_HEADER = "X-Request-Id"


@dataclass(frozen=True)
class Origin:
    """The entry point, the address of the client and the id of the request."""

    door: str = "library"
    remote: str | None = None
    request_id: str | None = None
    key: str | None = None
    """Id of the API key that the request came with, if it is one of the policy's."""


_origin = ContextVar[Origin | None]("outlast_origin", default=None)


def current_origin() -> Origin:
    """The origin of the request that is being served."""
    return _origin.get() or Origin()


def set_origin(origin: Origin) -> None:
    """Say where the request comes from that this task serves from now on."""
    _origin.set(origin)


def set_key(key: str | None) -> None:
    """Say which API key the request came with that this task serves."""
    _origin.set(replace(current_origin(), key=key))


@contextmanager
def served_from(origin: Origin) -> Generator[None]:
    """Say that what the block does comes from another request than the one that this task serves."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
