"""A tool whose client phase has its schema and its default as dicts."""

from outlast.workflows.tools.framework.phases import ClientPhase
from outlast.workflows.tools.framework.tool import Category, NoArguments, tool

PICK_COLOUR = (
    tool("pick_colour")
    .category(Category.DEV)
    .describe("Ask the user for a colour.")
    .args(NoArguments)
    .authority("client")
    .client(
        ClientPhase(
            name="colour",
            message="Which colour?",
            answer={"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}},
            default={"colour": "red"},
        )
    )
    .build()
)
