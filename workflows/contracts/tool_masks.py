"""Tool masks, which select the active tools among the available ones. Pure; all entry points and turns use it.

A request may carry `toolMask: {tool: bool}`. A mask does not change the tools that a model sees, so that the beginning
of its prompt stays the same; it decides which of them are active.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, cast

from pydantic import BeforeValidator, WithJsonSchema

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope


class Outcome(StrEnum):
    """The outcome of a resolution; a label of metrics."""

    UNMASKED = "unmasked"
    """There is no mask: all tools are active."""
    MASKED = "masked"
    """Some tools are active."""
    NOTHING = "nothing"
    """The mask enables none of the available tools."""
    LAST_STEP = "last_step"
    """In the last step of a turn no tool is active, whatever the mask."""
    SWITCHED_OFF = "switched_off"
    """There is a mask, but masking is off or the kill switch is on: all tools are active."""


class Reason(StrEnum):
    """The reason why a tool is not active."""

    DISABLED = "disabled"
    """The mask says false."""
    NOT_NAMED = "not_named"
    """The mask does not name it."""
    LAST_STEP = "last_step"


@dataclass(frozen=True)
class Resolution:
    """The active tools, in the order of the available ones, and the reason for each of the others."""

    active: tuple[str, ...]
    skipped: Mapping[str, Reason]
    outcome: Outcome

    def facts(self) -> dict[str, object]:
        """For a log line: what was selected, what was skipped, and why."""
        return {
            "mask_outcome": self.outcome.value,
            "selected": list(self.active),
            "skipped": {name: reason.value for name, reason in self.skipped.items()},
        }


def normalised(mask: object) -> dict[str, bool] | None:
    """The boolean entries of `mask`; None when there are none. Raises `ValueError` unless it is an object."""
    if mask is None:
        return None
    if not isinstance(mask, Mapping):
        raise ValueError("must be an object of tool names and booleans")  # noqa: TRY004 (pydantic wants ValueError)
    entries = cast(Mapping[object, object], mask)
    return {name: value for name, value in entries.items() if isinstance(name, str) and isinstance(value, bool)} or None


TOOL_MASK_DESCRIPTION = (
    "The tools that may be called: only those set to `true`. Without a mask, or if no entry is boolean, all may be "
    "called (the default); if no entry is `true`, none may. Entries that are not boolean are ignored; older names of "
    "tools are accepted. A call of another tool is refused with an error of the category `permission` that lists the "
    "active ones. Masks have an effect only if the server has `OUTLAST_TOOL_MASKING` on and its kill switch off."
)
"""For the documents of every request that takes a mask."""

ToolMask = Annotated[
    dict[str, bool] | None,
    BeforeValidator(normalised),
    WithJsonSchema(
        {
            "anyOf": [{"type": "object", "additionalProperties": {"type": "boolean"}}, {"type": "null"}],
            "examples": [{"get-actor-run": True, "call-actor": False}],
        }
    ),
]
"""The type of a request's field `toolMask`: normalised when it is read, None for no mask."""


def canonical(mask: Mapping[str, bool] | None, aliases: Mapping[str, str]) -> dict[str, bool] | None:
    """`mask` with the tools' own names, sorted. Where it names a tool twice, the tool's own name counts."""
    if mask is None:
        return None
    own = {name: value for name, value in mask.items() if name not in aliases}
    for name in sorted(mask.keys() & aliases.keys()):
        own.setdefault(aliases[name], mask[name])
    return dict(sorted(own.items()))


def is_active(tool: str, mask: Mapping[str, bool] | None) -> bool:
    """Return True if a canonical `mask` leaves `tool` active."""
    return mask is None or mask.get(tool) is True


def resolve(
    available: Iterable[str],
    mask: Mapping[str, bool] | None,
    *,
    is_last_step: bool = False,
    aliases: Mapping[str, str] | None = None,
) -> Resolution:
    """Return the active ones of the `available` tools: all without a mask, none in the last step."""
    names = tuple(dict.fromkeys(available))
    wanted = canonical(normalised(mask), aliases or {})
    skipped = {
        name: Reason.LAST_STEP if is_last_step else _why_not(name, wanted)
        for name in names
        if is_last_step or not is_active(name, wanted)
    }
    active = tuple(name for name in names if name not in skipped)
    return Resolution(active, skipped, _outcome(active, wanted, is_last_step))


def masked_tool(tool: str, resolution: Resolution) -> ErrorEnvelope:
    """The error for a call of a tool that is not active, at every entry point."""
    names = ", ".join(resolution.active)
    hint = f"Call one of the available tools instead: {names}." if names else "Answer without tools: none is available."
    why = "on the last step" if resolution.outcome is Outcome.LAST_STEP else "by the mask of this request"
    return ErrorEnvelope.permanent(
        ErrorCategory.PERMISSION,
        tool,
        f"{tool} may not be called: it is switched off {why}.",
        hint=hint,
        allowed_tools=resolution.active,
    )


def _why_not(name: str, mask: Mapping[str, bool] | None) -> Reason:
    return Reason.DISABLED if mask is not None and name in mask else Reason.NOT_NAMED


def _outcome(active: tuple[str, ...], mask: Mapping[str, bool] | None, is_last_step: bool) -> Outcome:
    if is_last_step:
        return Outcome.LAST_STEP
    if mask is None:
        return Outcome.UNMASKED
    return Outcome.MASKED if active else Outcome.NOTHING
