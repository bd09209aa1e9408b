"""`Skill` and `LoadSkillSupporting`: the operator's instructions for a kind of work, loaded on demand."""

from pydantic import Field

from outlast.activities.skills import SkillDocument
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Arguments, Category, reads, tool


class SkillArguments(Arguments):
    """A skill."""

    name: str = Field(min_length=1, max_length=64, description="Name of the skill, as the list of skills has it.")


class SkillFileArguments(SkillArguments):
    """A file of a skill."""

    path: str = Field(
        min_length=1, max_length=1_024, description="File, relative to the skill, as its main document names it."
    )


async def skill(ctx: HandlerContext, arguments: SkillArguments) -> ToolResult:
    """Load the main document, with a list of the other files."""
    document = await ctx.skills.load(arguments.name)
    return ToolResult(content=(TextContent(text=f"{document.text}\n{_files(ctx, document)}".strip()),))


async def load_skill_supporting(ctx: HandlerContext, arguments: SkillFileArguments) -> ToolResult:
    """Load one file."""
    file = await ctx.skills.load_file(arguments.name, arguments.path)
    return ToolResult(content=(TextContent(text=file.text),))


def _files(ctx: HandlerContext, document: SkillDocument) -> str:
    if not document.files:
        return ""
    how = " (LoadSkillSupporting loads them)" if ctx.offers("LoadSkillSupporting") else ""
    more = "\n- and more" if document.more_files else ""
    return f"\nSupporting files of this skill{how}:\n" + "\n".join(f"- {path}" for path in document.files) + more


SKILL = (
    tool("Skill")
    .category(Category.EXPERIMENTAL)
    .describe(
        "Load a skill: instructions for one kind of work, by name. Load the one that fits before you begin such work, "
        "and follow it."
    )
    .annotate(reads("Load a skill"))
    .args(SkillArguments)
    .server(skill)
    .build()
)

LOAD_SKILL_SUPPORTING = (
    tool("LoadSkillSupporting")
    .category(Category.EXPERIMENTAL)
    .describe("Load a supporting file of a skill, when the skill's main document refers to it and it is needed.")
    .annotate(reads("Load a file of a skill"))
    .args(SkillFileArguments)
    .server(load_skill_supporting)
    .build()
)
