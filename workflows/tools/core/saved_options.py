"""How runs of saved tasks and of schedules are carried out: named as for `call-actor`, sent as the platform has it."""

from typing import Any

from pydantic import Field

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.framework.ids import Id
from outlast.workflows.tools.framework.tool import Arguments

_SENT = {"build": "build", "timeout": "timeoutSecs", "memory": "memoryMbytes"}


class SavedOptions(Arguments):
    """Options of runs that somebody starts later (Apify API v2, options of a task, and of a schedule's action)."""

    memory: int | None = Field(
        default=None, ge=128, le=32_768, description="Memory in megabytes: a power of two from 128 to 32768."
    )
    timeout: int | None = Field(default=None, ge=0, description="Maximum duration of a run, in seconds; 0: none.")
    build: Id | None = Field(default=None, description="Build tag or number; the Actor's default without it.")

    def as_sent(self) -> JsonObject:
        """Those that were given, under the platform's names."""
        given = self.model_dump(exclude_none=True)
        return {sent: given[name] for name, sent in _SENT.items() if name in given}

    @classmethod
    def read(cls, options: dict[str, Any]) -> "SavedOptions | None":
        """The platform's options as callers name them, unchecked; None when there are none of these."""
        found = {name: options[sent] for name, sent in _SENT.items() if options.get(sent) is not None}
        return cls.model_construct(**found) if found else None
