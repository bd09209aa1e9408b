"""Skills, an operator's documents with instructions for models: the activities that read them, and their folder,
`NAME/SKILL.md` with YAML front matter (`name`, `description`) and supporting files beside it.
"""

import asyncio
import difflib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol, cast

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.contracts import Contract, ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.safe_open import PathError, PathNotFound, open_file_below, opened_folder
from outlast.suggestions import suggested

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
    """The operator's skills (`outlast.activities.skills.SkillFolder`)."""

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


log = logging.getLogger("outlast.skills")

MAIN_DOCUMENT = "SKILL.md"
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Limit of one document. Larger ones are rejected: they are not meant for a model."""
MAX_FRONT_MATTER_BYTES = 16_384
MAX_DESCRIPTION_CHARS = 1_024
MAX_SKILLS = 1_000
_LISTED_FILES = 100
_MAX_DEPTH = 8
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SkillCard:
    """The name and description of a skill, known before it is loaded."""

    name: str
    description: str


class InvalidSkill(ValueError):
    """A main document without valid front matter; the message names the problem."""


class SkillFolder:
    """Reads skills from disk at every call, so that an operator's changes apply at once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def cards(self) -> tuple[SkillCard, ...]:
        """Return all skills by name. A skill that cannot be read is left out, with a warning in the log."""
        found: list[SkillCard] = []
        for name in self._names():
            try:
                document = parse_skill(name, self._read_text(name, MAIN_DOCUMENT))
            except (InvalidSkill, PathError, OSError, ToolFailure) as error:
                log.warning("Skill %s is not offered: %s", name, error)
                continue
            found.append(SkillCard(document.name, document.description))
        return tuple(found)

    def load(self, name: str) -> SkillDocument:
        """Return the main document of skill `name`. Raises `ToolFailure` when it does not exist or is invalid."""
        try:
            document = parse_skill(name, self._read_or_explain(name, MAIN_DOCUMENT))
        except InvalidSkill as error:
            raise _failed(f"Skill {name!r} is invalid: {error}", "Tell the operator.") from None
        files = list(self._files(name))
        listed = tuple(files[:_LISTED_FILES])
        return document.model_copy(update={"files": listed, "more_files": len(files) > _LISTED_FILES})

    def load_file(self, name: str, path: str) -> SkillFile:
        """The supporting file `path` of skill `name`. Raises `ToolFailure` for a path outside the skill's folder."""
        return SkillFile(name=name, path=path, text=self._read_or_explain(name, path))

    def _names(self) -> list[str]:
        try:
            entries = [entry.name for entry in os.scandir(self._root) if entry.is_dir(follow_symlinks=False)]
        except OSError as error:
            log.warning("Cannot list the skills: %s", error.strerror)
            return []
        return sorted(name for name in entries if _NAME.match(name))[:MAX_SKILLS]

    def _read_or_explain(self, name: str, path: str) -> str:
        if not _NAME.match(name):
            raise self._unknown(name)
        try:
            return self._read_text(name, path)
        except PathNotFound as error:
            if path == MAIN_DOCUMENT:
                raise self._unknown(name) from None
            some = ", ".join(list(self._files(name))[:20]) or "none"
            raise _failed(str(error), f"Supporting files of {name}: {some}.", ErrorCategory.FILESYSTEM) from None
        except PathError as error:
            raise _failed(str(error), "Use a path that the skill's main document names.") from None
        except (FileNotFoundError, NotADirectoryError):
            raise self._unknown(name) from None

    def _read_text(self, name: str, path: str) -> str:
        with opened_folder(self._root / name) as folder, os.fdopen(open_file_below(folder, path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise _failed(
                f"{path!r} has {size} bytes; the limit for a skill's file is {MAX_FILE_BYTES}.",
                "Split the file, or keep large data elsewhere.",
            )
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise _failed(f"{path!r} is not UTF-8 text.", "Only text can be loaded.") from None

    def _files(self, name: str) -> Iterator[str]:
        """Supporting files by name, up to one more than are listed. Links are left out; they can be loaded."""
        base = self._root / name
        count = 0
        for folder, folders, files in os.walk(base):
            folders.sort()
            if len(Path(folder).relative_to(base).parts) >= _MAX_DEPTH:
                folders.clear()
            for file in sorted(files):
                path = Path(folder, file)
                shown = path.relative_to(base).as_posix()
                if shown == MAIN_DOCUMENT or file.startswith(".") or path.is_symlink():
                    continue
                yield shown
                count += 1
                if count > _LISTED_FILES:
                    return

    def _unknown(self, name: str) -> ToolFailure:
        known = [card.name for card in self.cards()]
        near = difflib.get_close_matches(name, known, n=3)
        shown = f"Did you mean {' or '.join(near)}?" if near else f"Skills: {suggested(known) or 'none'}."
        return _failed(f"There is no skill {name[:100]!r}.", shown, ErrorCategory.NOT_FOUND)


def parse_skill(name: str, text: str) -> SkillDocument:
    """Return the document of the skill in folder `name`. Raises `InvalidSkill`."""
    front, body = _split_front_matter(text)
    if len(front.encode()) > MAX_FRONT_MATTER_BYTES:
        raise InvalidSkill(f"its front matter has more than {MAX_FRONT_MATTER_BYTES} bytes")
    import yaml  # noqa: PLC0415 (15 ms of every start; few have skills)

    try:
        loaded: object = yaml.safe_load(front)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise InvalidSkill("its front matter is not valid YAML") from None
    entries = cast("dict[object, object]", loaded) if isinstance(loaded, dict) else {}
    if entries.get("name") != name:
        raise InvalidSkill(f"its front matter must have `name: {name}`, the name of its folder")
    description = entries.get("description")
    if not isinstance(description, str) or not description.strip():
        raise InvalidSkill("its front matter has no `description`")
    short = " ".join(description.split())[:MAX_DESCRIPTION_CHARS]
    return SkillDocument(name=name, description=short, text=body.strip("\n"))


def _split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter and the body."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    fences = list(_FENCE.finditer(text))
    if len(fences) < 2 or fences[0].start() != 0:
        raise InvalidSkill("it does not begin with front matter between two `---` lines")
    return text[fences[0].end() : fences[1].start()], text[fences[1].end() :]


def _failed(message: str, hint: str, category: ErrorCategory = ErrorCategory.VALIDATION) -> ToolFailure:
    return ToolFailure.of(category, message, hint)
