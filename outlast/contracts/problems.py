"""Error responses of the REST API (RFC 9457)."""

from pydantic import BaseModel, Field

from outlast.activities.failures.contracts import ErrorEnvelope, Violation

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """RFC 9457 problem details. `error` is present when a tool call was refused."""

    type: str = Field(description="Stable identifier of the kind of problem.")
    title: str
    status: int
    detail: str = Field(description="What is wrong with this request, and what to do.")
    instance: str | None = Field(default=None, description="Path of the request.")
    error: ErrorEnvelope | None = None
    violations: list[Violation] | None = None
