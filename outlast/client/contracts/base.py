"""The base of all contracts of the client."""

from pydantic import BaseModel, ConfigDict, JsonValue


class Response(BaseModel):
    """A response of the server: frozen, and tolerant of fields that a newer server adds.

    Added fields are kept, and states are plain text, so that what a newer server says is passed on and not refused.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def document(self) -> dict[str, JsonValue]:
        """The answer as JSON, without the fields that are not set."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True)
