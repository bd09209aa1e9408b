"""A tool that asks a person and waits some minutes for the answer. Loaded with OUTLAST_TOOLS_FROM."""

from datetime import timedelta

from pydantic import BaseModel

from outlast.workflows.tools.framework.phases import ClientPhase
from outlast.workflows.tools.framework.tool import Category, Tool, tool


class Yes(BaseModel):
    yes: bool


TOOLS: tuple[Tool, ...] = (
    tool("ask-briefly")
    .category(Category.DEV)
    .describe("Asks a person.")
    .authority("client")
    .client(ClientPhase(name="ask", message="Yes?", answer=Yes, deadline=timedelta(minutes=3)))
    .build(),
)
