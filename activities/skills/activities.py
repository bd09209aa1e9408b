"""Activities that read skills: named documents with instructions for models. Signatures only: the folder of
skills (`skill_folder` beside it) reads YAML, which workflow code must not import.
"""

import asyncio
from datetime import timedelta
from typing import Protocol

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.contracts import Contract
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.heartbeat import activity_scope

SKILL_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)


class SkillInput(Contract):
    """Input of `load_skill`."""

    name: str


class SkillFileInput(Contract):
    """Input of `load_skill_file`; `path` is relative to the skill's folder."""

    name: str
    path: str


class SkillDocument(Contract):
    """A skill's main document, without its front matter."""

    name: str
    description: str
    text: str
    files: tuple[str, ...] = Field(default=(), description="Supporting files, the first hundred by name.")
    more_files: bool = Field(default=False, description="Whether there are more files than these.")


class SkillFile(Contract):
    """A supporting file of a skill, as text."""

    name: str
    path: str
    text: str


class Skills(Protocol):
    """The operator's skills (`outlast.activities.skills.skill_folder.SkillFolder`)."""

    def load(self, name: str) -> SkillDocument:
        """Return the main document of a skill. Raises `ToolFailure`."""
        ...

    def load_file(self, name: str, path: str) -> SkillFile:
        """Return a supporting file of a skill. Raises `ToolFailure`."""
        ...


class SkillActivities:
    """Reads the operator's skills."""

    def __init__(self, skills: Skills | None) -> None:
        """`skills` is None when the operator has configured none."""
        self._skills = skills

    @activity.defn
    async def load_skill(self, request: SkillInput) -> SkillDocument:
        """Return a skill's main document. Fails with `not_found`, and names the skills that exist."""
        async with activity_scope():
            return await asyncio.to_thread(self._configured().load, request.name)

    @activity.defn
    async def load_skill_file(self, request: SkillFileInput) -> SkillFile:
        """Return a supporting file. Fails with `validation` for a path outside the skill's folder."""
        async with activity_scope():
            return await asyncio.to_thread(self._configured().load_file, request.name, request.path)

    def _configured(self) -> Skills:
        if self._skills is None:
            hint = "The operator configures a folder of skills with OUTLAST_SKILLS_DIR."
            raise ToolFailure.of(ErrorCategory.VALIDATION, "This worker has no skills.", hint)
        return self._skills
