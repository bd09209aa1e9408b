"""Contracts of the activity that reads an object of the platform's API."""

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract


class PlatformReadInput(Contract):
    """Input of `read_platform`: one `GET` below `/v2` of the platform's API, for a caller."""

    caller: Caller
    path: tuple[str, ...] = Field(description="The segments of the path, not escaped: `datasets`, an id.")
    parameters: dict[str, str | int | bool] = Field(default_factory=dict)
    max_bytes: int = Field(default=1_048_576, description="A larger answer is a failure.")
    wait_seconds: int = Field(default=0, ge=0, le=60, description="How long the platform may take on purpose.")


class PlatformObject(Contract):
    """The `data` of the platform's answer, without keys for signing and without signatures in addresses."""

    data: JsonValue = None
