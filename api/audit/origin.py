"""Origin of a request, for the audit records that are written while it is served."""

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
    """Id of the request's API key in the policy, if any."""


_origin = ContextVar[Origin | None]("outlast_origin", default=None)


def current_origin() -> Origin:
    """Return the origin of the request that is being served."""
    return _origin.get() or Origin()


def set_origin(origin: Origin) -> None:
    """Set the origin of the request that this task serves from now on."""
    _origin.set(origin)


def set_key(key: str | None) -> None:
    """Set the API key of the request that this task serves."""
    _origin.set(replace(current_origin(), key=key))


@contextmanager
def served_from(origin: Origin) -> Generator[None]:
    """Attribute the actions of the block to another request than the one that this task serves."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)
