"""Masks at the front doors: switched on or off by the settings, resolved in one way, logged and counted."""

import logging
from collections.abc import Iterable, Mapping

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.api.errors import MaskedToolCalled
from outlast.api.metrics import MASK_RESOLUTIONS
from outlast.api.settings import ApiSettings
from outlast.workflows.contracts.tool_masks import Outcome, Resolution, canonical, masked_tool, resolve
from outlast.workflows.tools.common.invalid import unknown_tool_envelope
from outlast.workflows.tools.framework.selection import TOOL_ALIASES

log = logging.getLogger("outlast.api")


class MaskGate:
    """Decides for every front door which masks count, and whether a tool may be called under one."""

    def __init__(self, settings: ApiSettings) -> None:
        """Heed masks as `settings` say."""
        self._on = settings.masks_are_heeded

    def effective(
        self, mask: Mapping[str, bool] | None, names: Mapping[str, str] = TOOL_ALIASES
    ) -> dict[str, bool] | None:
        """`mask` by the tools' own names; None for none, and where masking is off. `names` lead to the own ones."""
        if mask and not self._on:
            record(Resolution((), {}, Outcome.SWITCHED_OFF))
            return None
        return canonical(mask, {**TOOL_ALIASES, **names}) if mask else None

    def admit(self, tool: str, mask: Mapping[str, bool] | None, available: Iterable[str]) -> None:
        """Raise `MaskedToolCalled`, which names the active tools, unless an effective `mask` leaves `tool` active."""
        resolution = resolve((*available, tool), mask)
        record(resolution, tool)
        if tool not in resolution.active:
            raise MaskedToolCalled(masked_tool(tool, resolution))


def record(resolution: Resolution, tool: str | None = None) -> None:
    """Log what was selected, what was skipped and why, and count the outcome."""
    MASK_RESOLUTIONS.labels(resolution.outcome.value).inc()
    level = logging.DEBUG if resolution.outcome is Outcome.UNMASKED else logging.INFO
    log.log(level, "tool mask resolved", extra={"tool": tool, **resolution.facts()})


def narrowed(unknown: ErrorEnvelope, mask: Mapping[str, bool] | None) -> ErrorEnvelope:
    """The error for a tool that does not exist; it names only tools that an effective `mask` leaves active."""
    if mask is None or unknown.allowed_tools is None:
        return unknown
    return unknown_tool_envelope(unknown.tool, resolve(unknown.allowed_tools, mask).active)
