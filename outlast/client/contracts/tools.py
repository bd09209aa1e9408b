"""Tools as the server offers them."""

from pydantic import Field, JsonValue

from outlast.client.contracts.base import Response


class Tool(Response):
    """A tool that can be called."""

    name: str
    title: str = ""
    category: str = ""
    description: str = ""
    input_schema: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    output_schema: dict[str, JsonValue] | None = None
    annotations: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    actor: str | None = None


class ToolList(Response):
    """The tools that can be called."""

    tools: tuple[Tool, ...]


class Readiness(Response):
    """Whether the server can take tasks; `checks` says of each part `ok` or `failing`."""

    ready: bool
    checks: dict[str, str]
