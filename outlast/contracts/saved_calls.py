"""Saved calls, at every entry point."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from outlast.contracts.base import Response, absent
from outlast.contracts.schedules import Name, ScheduledCall
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly


class SaveCallRequest(ScheduledCall):
    """A call to be kept under a name."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 5}}}]
        },
    )

    note: str | None = Field(default=None, max_length=500, description="What it is for; any text.")


class RunSavedCall(KnownFieldsOnly):
    """Changes of a saved call for one use."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Arguments that go over those of the saved call, objects field by field."
    )


class SavedCall(Response):
    """A tool and its input under a name. Secrets are masked."""

    name: Name
    note: str | None = None
    tool: str
    arguments: dict[str, JsonValue]
    mode: str | None = None
    options: Annotated[dict[str, JsonValue], absent({})] = Field(description="What differs from the server's own.")
    saved_at: datetime
    damaged: str | None = Field(
        default=None,
        description="Why it cannot be read, and what to do; its tool is empty then. Absent for one that can be used.",
    )


class SavedCallList(Response):
    """Your saved calls, by name."""

    saved_calls: tuple[SavedCall, ...]
