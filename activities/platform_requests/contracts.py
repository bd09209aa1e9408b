"""Contracts of the activities that read, change and watch objects of the platform's API."""

from typing import Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract


class PlatformReadInput(Contract):
    """Input of `read_platform`: one `GET` below `/v2` of the platform's API, for a caller."""

    caller: Caller
    path: tuple[str, ...] = Field(description="The segments of the path, not escaped: `datasets`, an id.")
    parameters: dict[str, str | int | bool] = Field(default_factory=dict)
    max_bytes: int = Field(default=1_048_576, description="Maximum size; a larger answer is a failure.")
    members: tuple[str, ...] | None = Field(
        default=None,
        description="The members of the object to return; None: all. Leave out what a history must not hold.",
    )


class PlatformObject(Contract):
    """The `data` of the platform's answer, or its members that were requested. Keys for signing and signatures in
    addresses are left out.
    """

    data: JsonValue = None


class WatchRunInput(Contract):
    """Input of `watch_run`: a run that the caller can see, and how long it is waited for."""

    caller: Caller
    run_id: str
    wait_seconds: int = Field(ge=0, le=60)


class WatchedRun(Contract):
    """The state of a run that is awaited."""

    run_id: str
    actor_name: str | None = Field(default=None, description="As `user/name`; None when it cannot be looked up.")
    run_status: str
    run_message: str | None = Field(default=None, description="The latest status message of the run.")

    @property
    def in_words(self) -> str:
        """The same in a line."""
        message = f" — {self.run_message}" if self.run_message else ""
        return f"{self.actor_name or 'Actor'}: {self.run_status}{message}"


class WatchRunResult(PlatformObject):
    """The run, and how it stood when it was last looked at, where it was waited for at all."""

    watched: WatchedRun | None = None


class PlatformWriteInput(Contract):
    """Input of `write_platform`: one request below `/v2` of the platform's API, for a caller. It starts no run."""

    caller: Caller
    method: Literal["POST", "PUT", "DELETE"]
    path: tuple[str, ...] = Field(description="The segments of the path, not escaped: `actor-tasks`, an id.")
    body: JsonValue = Field(
        default=None,
        description="Body of the request; values that the API encrypted may be anywhere in it.",
    )
    texts: tuple[str, ...] = Field(
        default=(),
        description="Places of the body whose values are sent as their JSON text: `actions/*/runInput/body`. "
        "A value that is encrypted can become a text only here.",
    )
    hidden: tuple[str, ...] = Field(
        default=(),
        description="Places of the object to leave out of the answer: inputs, which may hold secrets.",
    )
    made: tuple[str, ...] | None = Field(
        default=None,
        description="For `POST`: path that finds the object by its name, so that a retry finds what an attempt "
        "made whose answer was lost.",
    )
