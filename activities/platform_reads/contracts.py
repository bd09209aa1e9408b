"""Contracts of the activity that reads an object of the platform's API."""

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract


class PlatformReadInput(Contract):
    """Input of `read_platform`: one `GET` below `/v2` of the platform's API, for a caller."""

    caller: Caller
    path: tuple[str, ...] = Field(description="The segments of the path, not escaped: `datasets`, an id.")
    parameters: dict[str, str | int | bool] = Field(default_factory=dict)
    max_bytes: int = Field(default=1_048_576, description="A larger answer is a failure.")
    members: tuple[str, ...] | None = Field(
        default=None,
        description="The members of the object that are answered; None: all. What a history must not hold is not read.",
    )


class PlatformObject(Contract):
    """The `data` of the platform's answer, or its members that were asked for.

    Keys for signing and signatures in addresses are left out.
    """

    data: JsonValue = None


class WatchRunInput(Contract):
    """Input of `watch_run`: a run that the caller can see, and how long it is waited for."""

    caller: Caller
    run_id: str
    wait_seconds: int = Field(ge=0, le=60)


class WatchedRun(Contract):
    """How a run stands that is waited for."""

    run_id: str
    actor_name: str | None = Field(default=None, description="As `user/name`; None when it cannot be looked up.")
    run_status: str
    run_message: str | None = Field(default=None, description="What the run says; of an ended one, what it said last.")

    @property
    def in_words(self) -> str:
        """The same in a line."""
        message = f" — {self.run_message}" if self.run_message else ""
        return f"{self.actor_name or 'Actor'}: {self.run_status}{message}"


class WatchRunResult(PlatformObject):
    """The run, and how it stood when it was last looked at, where it was waited for at all."""

    watched: WatchedRun | None = None
