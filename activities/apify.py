"""The names of apify-client that activities use, loaded on first use: it takes a quarter of a second, and no process
needs it before its first request to the platform. apify-client 3.4 does not export the names of its models; only this
module imports its private one, and `pyproject.toml` allows no other minor version.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apify_client import ApifyClientAsync
    from apify_client._models import (
        ActorNotice,
        ActorResource,
        ActorStats,
        DatasetListItem,
        DatasetResource,
        KeyValueStoreResource,
        Run,
        StoreActor,
    )
    from apify_client.errors import ApifyApiError, InvalidResponseBodyError, NotFoundError
    from apify_client.http_clients import HttpResponse

__all__ = [
    "ActorNotice",
    "ActorResource",
    "ActorStats",
    "ApifyApiError",
    "ApifyClientAsync",
    "DatasetListItem",
    "DatasetResource",
    "HttpResponse",
    "InvalidResponseBodyError",
    "KeyValueStoreResource",
    "NotFoundError",
    "Run",
    "StoreActor",
]

_MODULES = dict.fromkeys(__all__, "apify_client._models") | {
    "ApifyApiError": "apify_client.errors",
    "ApifyClientAsync": "apify_client",
    "HttpResponse": "apify_client.http_clients",
    "InvalidResponseBodyError": "apify_client.errors",
    "NotFoundError": "apify_client.errors",
}


def is_loaded() -> bool:
    """Return True if a module has loaded apify-client: before that, no error can be one of its errors."""
    return "apify_client.errors" in sys.modules


def is_model(name: str) -> bool:
    """Return True if apify-client, which is loaded, has a model of this name for the platform's responses."""
    return isinstance(getattr(sys.modules.get("apify_client._models"), name, None), type)


def load() -> None:
    """Load it now, in a thread, so that no request has to wait for it."""
    import_module("apify_client")


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    load()
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
