"""The server's instructions for a model: common text, the mode's text, and what this connection offers or lacks."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from outlast.activities.skills import SkillCard, SkillFolder
from outlast.workflows.contracts.tool_masks import is_active
from outlast.workflows.tools.core.server_tools import SEPARATOR
from outlast.workflows.tools.framework.mode import Instruction
from outlast.workflows.tools.framework.tool import Category
from outlast.workflows.tools.registry import MODES, ToolSet

_WHAT_IT_IS = Instruction("Outlast runs tools as durable tasks.")
_WHAT_IT_IS_WITH_ACTORS = Instruction(
    "Outlast runs tools as durable tasks, mainly Apify Actors: serverless programs that crawl, search and process."
)
COMMON = (
    Instruction(
        "- A long call continues as a task if you stop waiting or the connection ends. Collect its result with\n"
        "  get-task (waitSecs), find it with list-tasks, and stop it and its costs with cancel-task.",
        ("get-task", "list-tasks", "cancel-task"),
    ),
    Instruction(
        "- There are more tools than those listed. Find them with search-tools, read their schemas with\n"
        "  describe-tools, and call them with call-tool.",
        ("search-tools", "describe-tools", "call-tool"),
    ),
    Instruction(
        "- A large output is stored: the answer has `compressed: true`, a `locator`, and a summary with the first\n"
        "  rows, which are often enough. If not, restore only the part that you need, as the answer describes: a\n"
        "  filter, few fields, a range. Do not restore an output to repeat it or pass it on: refer to its locator.",
        ("restore-tool-output",),
    ),
    Instruction(
        "- An Actor's rows are in a dataset. Get those of older runs with get-actor-output, few fields at a time.",
        ("get-actor-output",),
    ),
    Instruction(
        "- If a run fails, read the end of its log with get-actor-log before you call again.", ("get-actor-log",)
    ),
)
"""The instructions of every mode, after what Outlast is."""

_OF_THE_PLATFORM = frozenset({Category.ACTORS, Category.DOCS, Category.STORAGE, Category.SCHEDULES})
_MAX_SKILLS = 50
_MAX_SKILL_CHARS = 240
_SKILL_TOOL = "Skill"


def server_instructions(
    tools: ToolSet, skills: Sequence[SkillCard] = (), *, mask: Mapping[str, bool] | None = None
) -> str:
    """Return the instructions of a connection. They name only tools that it has and that `mask` leaves active.

    Answers name the tool that restores outputs, as a message may mask it, and this text stays the same.
    """
    runs_actors = any(definition.runs_actor for definition in tools.tools.values())
    subjects = {None, *(["runs"] if runs_actors else []), *(["platform"] if _is_of_platform(tools) else [])}
    given = (_WHAT_IT_IS_WITH_ACTORS if runs_actors else _WHAT_IT_IS, *COMMON, *MODES[tools.mode].instructions)
    callable_tools = {name for name in tools.tools if is_active(name, mask)}
    parts = [part.text for part in given if part.about in subjects and callable_tools.issuperset(part.tools)]
    if tools.missing_actors:
        missing = ", ".join(tools.missing_actors)
        parts.append(f"- These Actors were selected, but cannot be loaded as tools now: {missing}.")
    if tools.missing_servers:
        missing = ", ".join(tools.missing_servers)
        parts.append(f"- These MCP servers have not answered yet; their tools are added when they do: {missing}.")
    if skills:
        parts.append(_listed(skills))
    active = {one.server.server for name, one in tools.tools.items() if one.server and name in callable_tools}
    for server, text in tools.server_instructions.items():
        if server in active:
            parts.append(f"\n## MCP server {server} (tools `{server}{SEPARATOR}...`)\n{text}")
    return "\n".join(parts)


def _is_of_platform(tools: ToolSet) -> bool:
    """Return whether a tool is for the Apify platform. Those that collect results are for all tools."""
    return any(one.runs_actor or one.category in _OF_THE_PLATFORM for one in tools.tools.values())


async def offered_skills(folder: Path | None, tools: ToolSet) -> Sequence[SkillCard]:
    """Return the skills of a connection; empty if it cannot load any."""
    if folder is None or _SKILL_TOOL not in tools.tools:
        return ()
    return await asyncio.to_thread(SkillFolder(folder).cards)


def _listed(skills: Sequence[SkillCard]) -> str:
    """Return the skills by name, each with the beginning of its description, so that the instructions stay short."""
    lines = [f"- Skills, to be loaded with {_SKILL_TOOL} before work of their kind:"]
    for card in skills[:_MAX_SKILLS]:
        cut = len(card.description) > _MAX_SKILL_CHARS
        lines.append(f"  - {card.name}: {card.description[: _MAX_SKILL_CHARS - 1] + '…' if cut else card.description}")
    if len(skills) > _MAX_SKILLS:
        names = ", ".join(card.name for card in skills[_MAX_SKILLS : 3 * _MAX_SKILLS])
        lines.append(f"  - and {len(skills) - _MAX_SKILLS} more: {names}")
    return "\n".join(lines)
