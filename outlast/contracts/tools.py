"""Tools as the REST API lists them, and the body of a call by name."""

from typing import Annotated

from pydantic import AliasChoices, ConfigDict, Field, JsonValue

from outlast.contracts.base import Response, absent
from outlast.workflows.contracts.tool_calls import CallOptions
from outlast.workflows.contracts.tool_masks import TOOL_MASK_DESCRIPTION, ToolMask
from outlast.workflows.contracts.unknown_fields import KnownFieldsOnly
from outlast.workflows.tools.framework.ids import Id


class ToolView(Response):
    """A tool that can be called."""

    name: str
    title: Annotated[str, absent("")]
    category: Annotated[str, absent("")]
    description: Annotated[str, absent("")]
    input_schema: Annotated[dict[str, JsonValue], absent({})]
    output_schema: dict[str, JsonValue] | None = None
    annotations: Annotated[dict[str, bool | str], absent({})]
    actor: str | None = Field(default=None, description="The Actor behind a direct Actor tool.")


Tool = ToolView


class ToolList(Response):
    """The tools that can be called."""

    tools: tuple[ToolView, ...]


class CallBody(KnownFieldsOnly):
    """Arguments of one call."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="Arguments that match the tool's schema.")
    mode: Id | None = Field(default=None, description="How the tool is presented; by default, the server's mode.")
    session_id: str | None = Field(default=None, min_length=1, max_length=200, pattern=r"^[\w.:@-]+$")
    options: CallOptions = Field(default_factory=CallOptions)
    tool_mask: ToolMask = Field(
        default=None, validation_alias=AliasChoices("toolMask", "tool_mask"), description=TOOL_MASK_DESCRIPTION
    )
