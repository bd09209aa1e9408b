"""Reading one Actor folder: `.actor/actor.json` (specification 1), its schemas, its README, its start command.

Conventions of the sandbox, beyond the platform's own file:

- `"x-outlast": {"owner": NAME, "command": [..], "public": BOOL, "defaultTimeoutSecs": N, "pricePerEvent": {..}}`, all
  optional; prices are US dollars by event name. A command that begins with `python` uses the sandbox's interpreter.
  `pictureUrl` and `pricing` (as the platform's API has it) are what it is listed with; nothing is charged by them.
- Without a command the entry point is found as in Apify's templates: `src/__main__.py` (`python -m src`), `main.py`,
  `src/main.py`, one package with a `__main__.py`, or `package.json` (`npm start`, else `node src/main.js`).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson

from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.times_and_ids import derived_id

ALIASED_KINDS = ("datasets", "keyValueStores")
"""Members of `storages` in actor.json that name storages beside the default ones."""
DEFAULT_OWNER = "outlast"
DEFAULT_MEMORY_MBYTES = 1024
DEFAULT_TIMEOUT_SECONDS = 3600
_VERSION = re.compile(r"(\d{1,2})\.(\d{1,2})")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


class BrokenActorError(Exception):
    """An Actor folder that cannot be used; the message says what to repair."""


@dataclass(frozen=True, slots=True)
class Actor:
    """One Actor with its only build."""

    id: str
    username: str
    name: str
    folder: Path
    definition: JsonObject
    command: tuple[str, ...]
    is_public: bool
    default_memory_mbytes: int
    default_timeout_seconds: int
    environment: dict[str, str]
    price_per_event: dict[str, float]
    modified_at: float
    picture_url: str | None = None
    pricing: JsonObject | None = None

    @property
    def full_name(self) -> str:
        """`username/name`."""
        return f"{self.username}/{self.name}"

    @property
    def title(self) -> str:
        """For people."""
        return str(self.definition.get("title") or self.name)

    @property
    def description(self) -> str:
        """One sentence on what the Actor does; may be empty."""
        return str(self.definition.get("description") or "")

    @property
    def input_schema(self) -> JsonObject | None:
        """Apify input schema, if the Actor has one."""
        return self.definition.get("input")

    def aliases(self, kind: str) -> tuple[str, ...]:
        """The aliases of a run's further storages: `kind` is one of `ALIASED_KINDS`."""
        storages: JsonObject = self.definition.get("storages") or {}
        named: JsonObject = storages.get(kind) or {}
        return tuple(alias for alias in named if alias != "default")

    @property
    def version(self) -> str:
        """`major.minor`."""
        return str(self.definition["version"])

    @property
    def build_number(self) -> str:
        """`major.minor.patch`. A folder has exactly one build."""
        return f"{self.version}.1"

    @property
    def build_id(self) -> str:
        """Stable for a name and version."""
        return derived_id("build", self.full_name, self.version)

    @property
    def build_tag(self) -> str:
        """Usually `latest`."""
        return str(self.definition.get("buildTag") or "latest")


def read_actor_folder(folder: Path) -> Actor:
    """Reads a folder. Raises BrokenActorError."""
    manifest_path = folder / ".actor" / "actor.json"
    manifest = _json_file(manifest_path)
    name = manifest.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BrokenActorError(f"{manifest_path}: 'name' must be lower-case letters, digits and hyphens")
    extras = _object(manifest.get("x-outlast", {}), "x-outlast", manifest_path)
    username = str(extras.get("owner") or DEFAULT_OWNER)
    return Actor(
        id=derived_id("actor", f"{username}/{name}"),
        username=username,
        name=name,
        folder=folder.resolve(),
        definition=_definition(folder, manifest),
        command=_command(folder, extras.get("command")),
        is_public=bool(extras.get("public", True)),
        default_memory_mbytes=_default_memory(manifest),
        default_timeout_seconds=int(extras.get("defaultTimeoutSecs", DEFAULT_TIMEOUT_SECONDS)),
        environment=_environment(manifest),
        price_per_event={str(key): float(value) for key, value in extras.get("pricePerEvent", {}).items()},
        modified_at=manifest_path.stat().st_mtime,
        picture_url=extras.get("pictureUrl"),
        pricing=extras.get("pricing"),
    )


def _json_file(path: Path) -> JsonObject:
    try:
        value: object = orjson.loads(path.read_bytes())
    except OSError as error:
        raise BrokenActorError(f"{path}: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise BrokenActorError(f"{path}: not valid JSON: {error}") from error
    return _object(value, "the file", path)


def _object(value: object, what: str, path: Path) -> JsonObject:
    if not isinstance(value, dict):
        raise BrokenActorError(f"{path}: {what} must be a JSON object")
    return cast("JsonObject", value)


def _default_memory(manifest: JsonObject) -> int:
    value = manifest.get("defaultMemoryMbytes", DEFAULT_MEMORY_MBYTES)
    # The platform also allows an expression over the input here; the sandbox does not compute it.
    chosen = value if isinstance(value, int) else DEFAULT_MEMORY_MBYTES
    return min(max(chosen, manifest.get("minMemoryMbytes", 128)), manifest.get("maxMemoryMbytes", 32768))


def _environment(manifest: JsonObject) -> dict[str, str]:
    variables: dict[str, Any] = manifest.get("environmentVariables") or {}
    # A value that begins with "@" refers to a secret stored on the platform; the sandbox stores none.
    return {key: str(value) for key, value in variables.items() if not str(value).startswith("@")}


def _definition(folder: Path, manifest: JsonObject) -> JsonObject:
    version = _VERSION.match(str(manifest.get("version", "0.1")))
    if version is None:
        raise BrokenActorError(f"{folder}: 'version' must look like 0.1")
    inherited = ("title", "description", "buildTag", "minMemoryMbytes", "maxMemoryMbytes", "defaultMemoryMbytes")
    inherited += ("usesStandbyMode", "webServerMcpPath")
    definition: JsonObject = {"actorSpecification": 1, "name": manifest["name"], "version": version.group(0)}
    definition.update({key: manifest[key] for key in inherited if manifest.get(key) is not None})
    input_schema = _schema(folder, manifest.get("input"), ("input_schema.json", "INPUT_SCHEMA.json"))
    if input_schema is not None:
        definition["input"] = input_schema
    definition["readme"] = _readme(folder, manifest.get("readme"))
    storages: JsonObject = manifest.get("storages") or {}
    definition["storages"] = {
        kind: _schema(folder, storages.get(key), defaults)
        for kind, key, defaults in (
            ("dataset", "dataset", ("dataset_schema.json",)),
            ("keyValueStore", "keyValueStore", ()),
        )
    }
    for kind in ALIASED_KINDS:
        if isinstance(storages.get(kind), dict):
            definition["storages"][kind] = storages[kind]
    definition["output"] = _schema(folder, manifest.get("output"), ("output_schema.json",))
    return definition


def _schema(folder: Path, reference: object, default_files: tuple[str, ...]) -> JsonObject | None:
    """A schema given inline, as a path relative to `.actor`, or by its usual file name."""
    if isinstance(reference, dict):
        return cast("JsonObject", reference)
    if isinstance(reference, str):
        return _json_file(folder / ".actor" / reference)
    candidates = [place / name for name in default_files for place in (folder / ".actor", folder)]
    return next((_json_file(path) for path in candidates if path.is_file()), None)


def _readme(folder: Path, reference: object) -> str:
    candidates = [folder / ".actor" / str(reference)] if reference else []
    candidates += [folder / ".actor" / "README.md", folder / "README.md"]
    return next((path.read_text(encoding="utf-8") for path in candidates if path.is_file()), "")


def _command(folder: Path, explicit: object) -> tuple[str, ...]:
    if explicit is not None:
        if not isinstance(explicit, list) or not explicit:
            raise BrokenActorError(f"{folder}: x-outlast.command must be a list of words")
        words = [str(word) for word in cast("list[object]", explicit)]
        return (sys.executable, *words[1:]) if words[0] in {"python", "python3"} else tuple(words)
    found = _python_entry(folder) or _node_entry(folder)
    if found is None:
        raise BrokenActorError(f"{folder}: no src/__main__.py, main.py or package.json, and no x-outlast.command")
    return found


def _python_entry(folder: Path) -> tuple[str, ...] | None:
    if (folder / "src" / "__main__.py").is_file():
        return (sys.executable, "-m", "src")
    if (folder / "main.py").is_file():
        return (sys.executable, "main.py")
    if (folder / "src" / "main.py").is_file():
        return (sys.executable, "-m", "src.main")
    packages = [path.parent.name for path in sorted(folder.glob("*/__main__.py")) if path.parent.name.isidentifier()]
    return (sys.executable, "-m", packages[0]) if len(packages) == 1 else None


def _node_entry(folder: Path) -> tuple[str, ...] | None:
    if (folder / "package.json").is_file() and _json_file(folder / "package.json").get("scripts", {}).get("start"):
        return ("npm", "start", "--silent")
    scripts = [name for name in ("src/main.js", "main.js", "src/main.mjs", "main.mjs") if (folder / name).is_file()]
    return ("node", scripts[0]) if scripts else None
