"""Contracts of the activity that writes an object of the platform's API."""

from typing import Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import Caller, Contract


class PlatformWriteInput(Contract):
    """Input of `write_platform`: one request below `/v2` of the platform's API, for a caller. It starts no run."""

    caller: Caller
    method: Literal["POST", "PUT", "DELETE"]
    path: tuple[str, ...] = Field(description="The segments of the path, not escaped: `actor-tasks`, an id.")
    body: JsonValue = Field(
        default=None,
        description="Values that the API sealed may be anywhere in it.",
    )
    texts: tuple[str, ...] = Field(
        default=(),
        description="Places of the body whose values are sent as their JSON text: `actions/*/runInput/body`. "
        "A value that is sealed can become a text only here.",
    )
    hidden: tuple[str, ...] = Field(
        default=(),
        description="Places of the object that are not answered: inputs, which may hold what was sealed.",
    )
    made: tuple[str, ...] | None = Field(
        default=None,
        description="For `POST`: where the object is found by its name, so that a repetition finds what an attempt "
        "made whose answer was lost.",
    )
