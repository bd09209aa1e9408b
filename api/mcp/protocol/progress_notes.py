"""Content of a progress notification."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types

from outlast.api.mcp.protocol.versions import Context


@dataclass(frozen=True)
class ProgressNote:
    """One step of a call for its client. Without `done`, `ProgressSteps` counts the steps."""

    message: str
    done: float | None = None
    total: float | None = None
    meta: Mapping[str, Any] | None = None
    """The `_meta` of the notification."""


@dataclass(frozen=True)
class ProgressFacts:
    """An event of a task, with the Actor and the run, if known."""

    event: str
    data: Mapping[str, Any]
    actor: str | None = None
    run_id: str | None = None


class ProgressSteps:
    """The steps of one call, from the events of its task: each is reported once."""

    def __init__(self, note_of: Callable[[ProgressFacts], ProgressNote | None], actor: str | None = None) -> None:
        """`note_of` words an event; `actor` is the Actor that the call runs, as it was named."""
        self._note_of = note_of
        self._actor = actor
        self._progress = 0.0
        self._run_id: str | None = None
        self._last: str | None = None

    def after(self, event: str, data: Mapping[str, Any]) -> ProgressNote | None:
        """Return the note of an event, with its progress; None if it is not reported, or was reported before."""
        started = data.get("run_id")
        self._run_id = started if isinstance(started, str) else self._run_id
        note = self._note_of(ProgressFacts(event, data, self._actor, self._run_id))
        if note is None or (note.done is None and note.message == self._last):
            return None
        self._last = note.message
        self._progress = self._progress + 1 if note.done is None else note.done
        return replace(note, done=self._progress)


def wants_progress(ctx: Context) -> bool:
    """Check whether the client requested progress."""
    return "progress_token" in (ctx.meta or {})


def progress_notification(ctx: Context, note: ProgressNote, meta: Mapping[str, Any]) -> types.ProgressNotification:
    """Return the notification for the request of `ctx` as the SDK makes it, with `meta` as its `_meta`."""
    token: object = (ctx.meta or {}).get("progress_token")
    params = {"progress": note.done, "total": note.total, "message": note.message}
    return types.ProgressNotification(
        params=types.ProgressNotificationParams.model_validate({"progressToken": token, **params, "_meta": dict(meta)})
    )
