"""Loading skills, from workflow code."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.skills.activities import (
        SKILL_RETRY_POLICY,
        SkillActivities,
        SkillDocument,
        SkillFile,
        SkillFileInput,
        SkillInput,
    )

from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import call_activity


class Skills:
    """Loads the operator's skills. Every method raises `ToolError` when the skill or file does not exist."""

    def __init__(self, call: ToolCall) -> None:
        """Read for `call`."""
        self._call = call

    async def load(self, name: str) -> SkillDocument:
        """The main document of a skill."""
        method, request = SkillActivities.load_skill, SkillInput(name=name)
        return await call_activity(self._call, method, request, summary=f"load {name}", retry_policy=SKILL_RETRY_POLICY)

    async def load_file(self, name: str, path: str) -> SkillFile:
        """A supporting file of a skill."""
        method, request = SkillActivities.load_skill_file, SkillFileInput(name=name, path=path)
        return await call_activity(
            self._call, method, request, summary=f"load a file of {name}", retry_policy=SKILL_RETRY_POLICY
        )
