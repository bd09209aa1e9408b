"""Dialects by mode. Modules of other packages declare theirs in `DIALECTS`."""

from collections.abc import Mapping
from typing import cast

from outlast.api.mcp.dialects.apify import ApifyDialect
from outlast.api.mcp.dialects.dialect import Dialect
from outlast.workflows.tools.extensions import extension_entries

_STANDARD = Dialect()
_OWN: Mapping[str, Dialect] = {"apify": ApifyDialect()}


def dialect_of(mode: str) -> Dialect:
    """Return the mode's own dialect, or that of all others."""
    brought = dict(cast(tuple[tuple[str, Dialect], ...], extension_entries("DIALECTS")))
    return {**brought, **_OWN}.get(mode, _STANDARD)
