"""Actors: their folders (README.md describes them), the catalogue, and inputs checked against input schemas.

Inputs follow Apify's input schema specification 1: the platform applies `default`; `prefill` is only for its web form.
"""

from __future__ import annotations

import copy
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

from outlast.deploy.local.sandbox.accounts import User
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, derived_id

if TYPE_CHECKING:
    import jsonschema

ALIASED_KINDS = ("datasets", "keyValueStores")
"""Members of `storages` in actor.json that name storages beside the default ones."""
_INHERITED = (
    "title", "description", "buildTag", "minMemoryMbytes", "maxMemoryMbytes", "defaultMemoryMbytes", "usesStandbyMode",
    "webServerMcpPath",
)  # fmt: skip
_KEPT = (
    "type", "enum", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "uniqueItems",
    "items", "properties", "required", "additionalProperties", "minProperties", "maxProperties",
)  # fmt: skip
DEFAULT_OWNER = "outlast"
DEFAULT_MEMORY_MBYTES = 1024
DEFAULT_TIMEOUT_SECONDS = 3600
_VERSION = re.compile(r"(\d{1,2})\.(\d{1,2})")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Actor:
    """Actor with its only build."""

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
        """Name as `username/name`."""
        return f"{self.username}/{self.name}"

    @property
    def title(self) -> str:
        """Title for people."""
        return str(self.definition.get("title") or self.name)

    @property
    def description(self) -> str:
        """One sentence on the purpose of the Actor; may be empty."""
        return str(self.definition.get("description") or "")

    @property
    def input_schema(self) -> JsonObject | None:
        """Apify input schema, if the Actor has one."""
        return self.definition.get("input")

    def aliases(self, kind: str) -> tuple[str, ...]:
        """Return the aliases of a run's further storages; `kind` is one of `ALIASED_KINDS`."""
        storages: JsonObject = self.definition.get("storages") or {}
        named: JsonObject = storages.get(kind) or {}
        return tuple(alias for alias in named if alias != "default")

    @property
    def version(self) -> str:
        """Version as `major.minor`."""
        return str(self.definition["version"])

    @property
    def build_number(self) -> str:
        """Number of the only build, as `major.minor.patch`."""
        return f"{self.version}.1"

    @property
    def build_id(self) -> str:
        """Id of the build, stable for a name and version."""
        return derived_id("build", self.full_name, self.version)

    @property
    def build_tag(self) -> str:
        """Tag of the build, usually `latest`."""
        return str(self.definition.get("buildTag") or "latest")


class BrokenActorError(Exception):
    """Actor folder that cannot be used. The message names the repair."""


class Catalogue:
    """Actors by id and by `username~name`."""

    def __init__(self, actors: Iterable[Actor]) -> None:
        self._by_id = {actor.id: actor for actor in actors}
        self._by_name = {actor.full_name.casefold(): actor for actor in self._by_id.values()}

    def all(self) -> list[Actor]:
        """Return every Actor, sorted by name."""
        return sorted(self._by_id.values(), key=lambda actor: actor.full_name)

    def by_id(self, actor_id: str) -> Actor | None:
        """Return the Actor with this ID, None if its folder was removed after the run started."""
        return self._by_id.get(actor_id)

    def by_build(self, build_id: str) -> Actor | None:
        """Return the Actor of a build."""
        return next((actor for actor in self._by_id.values() if actor.build_id == build_id), None)

    def find(self, reference: str, user: User | None) -> Actor:
        """Return an Actor by ID, `username~name` or `username/name`. Raises `ApiError` 404, also if it is private."""
        actor = self._by_id.get(reference) or self._by_name.get(reference.replace("~", "/", 1).casefold())
        if actor is None or not is_visible(actor, user):
            raise ApiError(404, "record-not-found", f"Actor '{reference}' was not found")
        return actor

    def find_host(self, label: str, user: User | None) -> Actor:
        """Find the Actor that a label of a host names. Hosts have no case, so that IDs match in any case."""
        by_host = {actor_id.lower(): actor_id for actor_id in self._by_id}
        return self.find(by_host.get(label.lower(), label), user)


def is_visible(actor: Actor, user: User | None) -> bool:
    """Return whether the user may see the Actor: it is public or the user's own."""
    return actor.is_public or (user is not None and user.username == actor.username)


def load_catalogue(directories: Iterable[Path]) -> Catalogue:
    """Read all folders. A folder that cannot be read is skipped with a warning that names the repair."""
    actors: dict[str, Actor] = {}
    for folder, actor in _read_folders(directories):
        if isinstance(actor, str):
            logger.warning("skipped an Actor folder: %s", actor)
            continue
        if actor.id in actors:
            logger.warning(
                "Actor %s is loaded from %s, which replaces %s", actor.full_name, folder, actors[actor.id].folder
            )
        actors[actor.id] = actor
    return Catalogue(actors.values())


def broken_folders(directories: Iterable[Path]) -> tuple[str, ...]:
    """Return the problems of these folders, one line each: no Actor, or an Actor that cannot be read."""
    problems: list[str] = []
    for directory in directories:
        found = [actor for _, actor in _read_folders([directory])]
        if not found:
            problems.append(f"{directory}: there is no Actor (.actor/actor.json) here or in a folder below")
        problems += [problem for problem in found if isinstance(problem, str)]
    return tuple(problems)


def _read_folders(directories: Iterable[Path]) -> Iterator[tuple[Path, Actor | str]]:
    """Yield each Actor folder with its Actor, or with the reason why it cannot be read."""
    for folder in _actor_folders(directories):
        try:
            yield folder, read_actor_folder(folder)
        except (BrokenActorError, ValueError, TypeError, AttributeError) as error:
            yield folder, str(error)


def _actor_folders(directories: Iterable[Path]) -> Iterable[Path]:
    for directory in directories:
        if (directory / ".actor").is_dir():
            yield directory
        elif directory.is_dir():
            yield from (path for path in sorted(directory.iterdir()) if (path / ".actor").is_dir())
        else:
            logger.warning("no Actor folder at %s", directory)


def read_actor_folder(folder: Path) -> Actor:
    """Read a folder. Raises `BrokenActorError`."""
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
    # The platform also allows an expression over the input here; the sandbox does not evaluate it.
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
    definition: JsonObject = {"actorSpecification": 1, "name": manifest["name"], "version": version.group(0)}
    definition.update({key: manifest[key] for key in _INHERITED if manifest.get(key) is not None})
    input_schema = _schema(folder, manifest.get("input"), ("input_schema.json", "INPUT_SCHEMA.json"))
    if input_schema is not None:
        definition["input"] = input_schema
    definition["readme"] = _readme(folder, manifest.get("readme"))
    storages: JsonObject = manifest.get("storages") or {}
    definition["storages"] = {
        "dataset": _schema(folder, storages.get("dataset"), ("dataset_schema.json",)),
        "keyValueStore": _schema(folder, storages.get("keyValueStore"), ()),
        **{kind: storages[kind] for kind in ALIASED_KINDS if isinstance(storages.get(kind), dict)},
    }
    definition["output"] = _schema(folder, manifest.get("output"), ("output_schema.json",))
    return definition


def _schema(folder: Path, reference: object, default_files: tuple[str, ...]) -> JsonObject | None:
    """Return a schema that is given inline, as a path relative to `.actor`, or by its usual file name."""
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


def prepared_input(schema: JsonObject | None, body: bytes, content_type: str) -> tuple[bytes, str]:
    """Return the INPUT record of a run: bytes and content type. Raises `ApiError` 400 for invalid input."""
    media_type = content_type.split(";", maxsplit=1)[0].strip().lower()
    if schema is None:
        if body and media_type == "application/json":
            _parsed(body)
        return body, content_type or "application/json; charset=utf-8"
    if body and media_type not in {"", "application/json"}:
        raise ApiError(400, "invalid-content-type-header", "This Actor has an input schema: its input must be JSON")
    value: object = _parsed(body) if body else cast("JsonObject", {})
    if not isinstance(value, dict):
        raise ApiError(400, "invalid-input", "Input is not valid: Input must be an object")
    complete = with_defaults(schema, cast("JsonObject", value))
    problem = next(violations(schema, complete), None)
    if problem is not None:
        raise ApiError(400, "invalid-input", f"Input is not valid: {problem}")
    return orjson.dumps(complete), "application/json; charset=utf-8"


def with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """Add the defaults of the properties that the input leaves out."""
    properties: JsonObject = schema.get("properties") or {}
    defaults = {
        name: copy.deepcopy(definition["default"])
        for name, definition in properties.items()
        if name not in value and "default" in definition
    }
    return {**value, **defaults}


def violations(schema: JsonObject, value: JsonObject) -> Iterator[str]:
    """Yield the violations of the schema by an input, worded as on the platform."""
    # Imported here so that the sandbox starts sooner.
    import jsonschema.validators  # noqa: PLC0415
    from jsonschema.exceptions import UnknownType  # noqa: PLC0415

    extend = cast(Any, jsonschema.validators.extend)  # pyright: ignore[reportUnknownMemberType]
    applied: type[jsonschema.Draft7Validator] = extend(jsonschema.Draft7Validator, {"pattern": _broken_pattern})
    try:
        errors = list(applied(_json_schema(schema)).iter_errors(value))  # pyright: ignore[reportUnknownMemberType]
    except UnknownType as error:
        logger.warning("An Actor's input schema is not applied, since it has an unknown type: %s", error.type)
        errors = []
    yield from map(_sentence, errors)
    yield from _broken_sources(schema, value)


def _parsed(body: bytes) -> object:
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, "run-input-body-not-valid-json", f"The input is not valid JSON: {error}") from error
    return value


def _json_schema(schema: JsonObject) -> JsonObject:
    """Convert the schema to plain JSON Schema: without Apify's editor hints, with `nullable` as a type."""
    properties: JsonObject = schema.get("properties") or {}
    return {
        "type": "object",
        "properties": {name: _property(definition) for name, definition in properties.items()},
        "required": schema.get("required", []),
        "additionalProperties": schema.get("additionalProperties", True),
    }


def _property(definition: JsonObject) -> JsonObject:
    kept = {key: definition[key] for key in _KEPT if key in definition}
    if definition.get("nullable"):
        return {"anyOf": [{"type": "null"}, kept]}
    return kept


def _broken_pattern(_validator: object, pattern: str, text: object, _schema: object) -> Iterator[object]:
    """Yield an error for a text that does not match a pattern of JavaScript (ECMA-262), as on the platform.

    A pattern that this engine cannot read is logged and not applied.
    """
    import jsonschema  # noqa: PLC0415 (see above)
    from jsonschema_rs import Draft7Validator, FancyRegexOptions  # noqa: PLC0415 (see above)

    if not isinstance(text, str):
        return
    try:
        fits = Draft7Validator(
            {"pattern": pattern}, pattern_options=FancyRegexOptions(backtrack_limit=1_000_000)
        ).is_valid(text)
    except ValueError:
        logger.warning(
            "A pattern of an Actor's input schema is not applied, since it cannot be read: %r", pattern[:200]
        )
        return
    if not fits:
        yield jsonschema.ValidationError(f"{text[:100]!r} does not match {pattern[:200]!r}")


def _sentence(error: jsonschema.ValidationError) -> str:
    path = ".".join(["input", *(str(part) for part in error.absolute_path)])
    match error.validator:
        case "required":
            given = cast("JsonObject", error.instance)
            missing = next(name for name in cast("list[str]", error.validator_value) if name not in given)
            return f"Field {path}.{missing} is required"
        case "type":
            return f"Field {path} must be {error.validator_value}"
        case "enum":
            allowed = ", ".join(orjson.dumps(choice).decode() for choice in cast("list[Any]", error.validator_value))
            return f"Field {path} must be equal to one of the allowed values: {allowed}"
        case "minimum" | "maximum":
            sign = ">=" if error.validator == "minimum" else "<="
            return f"Field {path} must be {sign} {error.validator_value}"
        case "additionalProperties":
            return f"Field {path} must NOT have additional properties: {error.message}"
        case _:
            return f"Field {path} is not valid: {error.message}"


def _broken_sources(schema: JsonObject, value: JsonObject) -> Iterator[str]:
    properties: JsonObject = schema.get("properties") or {}
    for name, definition in properties.items():
        if definition.get("editor") != "requestListSources" or not isinstance(value.get(name), list):
            continue
        for position, source in enumerate(cast("list[Any]", value[name])):
            if not isinstance(source, dict) or not ({"url", "requestsFromUrl"} & cast("JsonObject", source).keys()):
                yield f"Field input.{name}.{position} must be an object with 'url' or 'requestsFromUrl'"
