"""Client tools of the user: from Python modules, and from manifests that name programs in any language."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outlast.cli.client_tools.programs import run_program
from outlast.cli.errors import BadInput
from outlast.client import ClientTool
from outlast.client.client_tools import DEFAULT_TIMEOUT_SECONDS


class ProgramEntry(BaseModel):
    """One client tool of a manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = Field(min_length=1)
    phase: str = Field(min_length=1)
    command: tuple[str, ...] = Field(min_length=1, description="Program and arguments; run in the manifest's folder.")
    sends: str = Field(min_length=1, description="What leaves the machine, as the user is asked about it.")
    timeout_seconds: float = Field(default=DEFAULT_TIMEOUT_SECONDS, gt=0)


class Manifest(BaseModel):
    """A file of client tools that are programs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_tools: tuple[ProgramEntry, ...] = Field(min_length=1)


def own_tools(tools_from: str) -> tuple[ClientTool, ...]:
    """The client tools of `tools_from`: modules, Python files and manifests (`.json`), separated by commas.

    Raises `BadInput` that names the one that cannot be used, and why.
    """
    names = [name.strip() for name in tools_from.split(",") if name.strip()]
    return tuple(tool for name in names for tool in (_of_manifest if name.endswith(".json") else _of_module)(name))


def _of_manifest(name: str) -> Iterator[ClientTool]:
    file = Path(name).resolve()
    try:
        manifest = Manifest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(str(part) for part in first["loc"]) or "the document"
        raise BadInput(f"{name}: {place}: {first['msg']}.", hint=_MANIFEST_HINT) from error
    for entry in manifest.client_tools:
        yield ClientTool(
            entry.tool,
            entry.phase,
            run_program(entry.command, file.parent),
            entry.sends,
            entry.timeout_seconds,
        )


def _of_module(name: str) -> Iterator[ClientTool]:
    from outlast.workflows.tools.extensions import ExtensionError, named_modules  # noqa: PLC0415 (temporalio)

    try:
        module = named_modules([name])[name]
    except ExtensionError as error:
        raise BadInput(str(error)) from error
    tools: object = getattr(module, "CLIENT_TOOLS", None)
    entries = cast(list[Any], tools) if isinstance(tools, list | tuple) else []
    if not entries or not all(isinstance(entry, ClientTool) for entry in entries):
        raise BadInput(f"{name} has no CLIENT_TOOLS, a list of client tools.", hint=_MODULE_HINT)
    yield from entries


_MODULE_HINT = "Write CLIENT_TOOLS = [ClientTool(tool=..., phase=..., run=..., sends=...)] in it."
_MANIFEST_HINT = "It reads like " + json.dumps(
    {"client_tools": [{"tool": "pick_colour", "phase": "pick", "command": ["node", "pick.mjs"], "sends": "a colour"}]}
)
