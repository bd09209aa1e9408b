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
    wait_seconds: int = Field(default=0, ge=0, le=60, description="How long the platform may take on purpose.")


class PlatformObject(Contract):
    """The `data` of the platform's answer, or its members that were asked for.

    Keys for signing and signatures in addresses are left out.
    """

    data: JsonValue = None
