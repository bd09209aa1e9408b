"""Pins of MCP servers: the lock file, beside the servers file, with the tools that the operator has accepted.

The file is canonical JSON with a record per server. While it has one, a tool of the server that is new or differs is
quarantined: neither offered nor called. API and worker read the same file, and decide with `quarantine_of`.
"""

import difflib
import hashlib
import json
import logging
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from pydantic import Field, JsonValue, ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.mcp_servers.contracts import ServerListing, ServerPackage, ServerTool
from outlast.activities.unicode_text import hidden_in, printable, without_hidden

log = logging.getLogger("outlast.mcp_servers")
MAX_LOCK_BYTES: Final = 64 * 1024 * 1024
_FORMAT: Final = 1
_MAX_CHANGED_LINES = 200
"""Of one change, as it is shown."""
QuarantineReason = Literal["changed", "new", "hidden"]
"""`hidden`: characters that nobody sees are in names or values of its arguments, where they cannot be replaced."""


class PinnedTool(Contract):
    """A tool as it was accepted."""

    digest: str = Field(description="`digest_of` the definition.")
    definition: dict[str, JsonValue] = Field(description="`definition_of` the tool.")


class ServerPin(Contract):
    """A server as it was accepted."""

    tools: dict[str, PinnedTool] = Field(default_factory=dict, description="By their names on the server.")
    instructions: str | None = None
    package: ServerPackage | None = Field(default=None, description="None if the command runs no known package.")


class _Lock(Contract):
    format: Literal[1] = _FORMAT
    servers: dict[str, ServerPin]


class PinChange(Contract):
    """A difference between a server and its pin."""

    kind: Literal["changed", "new", "removed"]
    part: Literal["tool", "instructions", "package"]
    tool: str | None = None
    lines: tuple[str, ...] = Field(description="Difference of the texts: lines that begin with `-`, `+` or a blank.")


class LockFileError(ValueError):
    """The lock file cannot be used. The message names it and has the reason."""


def lock_path(servers_file: Path) -> Path:
    """Return the path of the lock file that belongs to a servers file: `mcp.lock.json` for `mcp.json`."""
    return servers_file.with_name(f"{servers_file.stem}.lock.json")


def read_lock(path: Path) -> dict[str, ServerPin] | None:
    """Return the pins in a lock file, by server; None if it does not exist. Raises `LockFileError`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_LOCK_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LockFileError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_LOCK_BYTES:
        raise LockFileError(f"{path} is larger than {MAX_LOCK_BYTES} bytes")
    try:
        pins = _Lock.model_validate_json(content).servers
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise LockFileError(f"{path} is no valid lock file: {place + ': ' if place else ''}{first['msg']}") from None
    for name, pin in pins.items():
        for tool, pinned in pin.tools.items():
            if pinned.digest != digest_of(pinned.definition):
                raise LockFileError(f"{path}: the digest of the tool {tool} of {name} is not that of its definition")
    return pins


def lock_text(pins: Mapping[str, ServerPin]) -> str:
    """Return the content of a lock file: sorted keys, UTF-8, with escapes for what is not seen."""
    value = {"format": _FORMAT, "servers": {name: pin.model_dump(mode="json") for name, pin in pins.items()}}
    return _json(value) + "\n"


def write_lock(path: Path, pins: Mapping[str, ServerPin]) -> None:
    """Replace a lock file atomically; a new one is readable for everyone, since it has no secrets. Raises `OSError`."""
    target = path.resolve()
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=target.parent, prefix=f".{path.name}.", delete=False
    ) as new:
        new.write(lock_text(pins))
    try:
        Path(new.name).chmod(mode)
        Path(new.name).replace(target)
    finally:
        Path(new.name).unlink(missing_ok=True)


def _json(value: object) -> str:
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=False)
    return without_hidden(text, lambda run: json.dumps(run)[1:-1])


def definition_of(tool: ServerTool) -> dict[str, JsonValue]:
    """Return everything about a tool that models, clients, and the rules for its calls depend on."""
    hints: dict[str, JsonValue] = {
        "readOnlyHint": tool.read_only,
        "destructiveHint": tool.destructive,
        "idempotentHint": tool.idempotent,
        "openWorldHint": tool.open_world,
    }
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": hints if tool.annotated else None,
    }


def digest_of(definition: Mapping[str, JsonValue]) -> str:
    """Return the SHA-256 of the definition as canonical JSON, in hexadecimal digits."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def pin_of(listing: ServerListing) -> ServerPin:
    """Return the pin that accepts a server as it is listed."""
    definitions = {tool.name: definition_of(tool) for tool in listing.tools}
    tools = {name: PinnedTool(digest=digest_of(one), definition=one) for name, one in definitions.items()}
    return ServerPin(tools=tools, instructions=listing.instructions, package=listing.package)


def accepted(pin: ServerPin | None, listed: ServerPin, tools: Iterable[str] = ()) -> ServerPin:
    """Return the pin after these tools are accepted as listed; without names, the whole server."""
    names = tuple(tools)
    if pin is None or not names:
        return listed
    kept = {name: one for name, one in pin.tools.items() if name not in names}
    return pin.model_copy(
        update={"tools": {**kept, **{name: listed.tools[name] for name in names if name in listed.tools}}}
    )


def quarantine_of(pin: ServerPin | None, tool: ServerTool) -> QuarantineReason | None:
    """Return why a tool may neither be offered nor called; None if it may. Without a pin every form is accepted."""
    if _hidden_parts(tool.input_schema):
        return "hidden"
    if pin is None:
        return None
    pinned = pin.tools.get(tool.name)
    if pinned is None:
        return "new"
    return None if pinned.digest == digest_of(definition_of(tool)) else "changed"


def without_quarantined(
    listing: ServerListing, pin: ServerPin | None
) -> tuple[ServerListing, dict[str, QuarantineReason]]:
    """Return a list without its quarantined tools, and these with their reasons, by name."""
    reasons: dict[str, QuarantineReason | None] = {tool.name: quarantine_of(pin, tool) for tool in listing.tools}
    found: dict[str, QuarantineReason] = {name: reason for name, reason in reasons.items() if reason is not None}
    kept = tuple(tool for tool in listing.tools if tool.name not in found)
    return listing.model_copy(update={"tools": kept}), found


_REASONS: dict[QuarantineReason, str] = {
    "changed": "its definition has changed since it was pinned",
    "new": "it is new since the server was pinned",
    "hidden": "names or values of its arguments have characters that nobody sees",
}


def refusal_of(server: str, tool: str, reason: QuarantineReason) -> tuple[str, str]:
    """Return the message for a call of a quarantined tool, and the hint."""
    message = f"The tool {tool} of the MCP server {server} is quarantined: {_REASONS[reason]}."
    if reason == "hidden":
        return message, "The author of the server can remove them."
    return message, (
        f"The operator sees the difference with `outlast servers diff {server}`, and accepts it with "
        f"`outlast servers approve {server} {tool}`."
    )


_VALUES = frozenset({"enum", "const"})


def _hidden_parts(schema: JsonValue) -> bool:
    """Return whether a schema has hidden characters in what a call has to repeat: names of properties, fixed values."""
    if isinstance(schema, list):
        return any(map(_hidden_parts, schema))
    if not isinstance(schema, dict):
        return False
    return any(
        hidden_in(key) or (hidden_in(json.dumps(value, ensure_ascii=False)) if key in _VALUES else _hidden_parts(value))
        for key, value in schema.items()
    )


def changes_of(pin: ServerPin, listed: ServerPin) -> tuple[PinChange, ...]:
    """Return the differences between the pin and the server as it is listed, in the order of names."""
    found = list[PinChange]()
    for name in sorted({*pin.tools, *listed.tools}):
        was, now = pin.tools.get(name), listed.tools.get(name)
        if was is None or now is None or was.digest != now.digest:
            before, after = (_lines(one.definition) if one else [] for one in (was, now))
            found.append(_change("tool", before, after, tool=name))
    if pin.instructions != listed.instructions:
        found.append(_change("instructions", _text_lines(pin.instructions), _text_lines(listed.instructions)))
    if pin.package != listed.package:
        found.append(_change("package", _package_lines(pin.package), _package_lines(listed.package)))
    return tuple(found)


def _change(
    part: Literal["tool", "instructions", "package"], before: list[str], after: list[str], tool: str | None = None
) -> PinChange:
    kind = "new" if not before else "removed" if not after else "changed"
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    shown = [line for line in lines if not line.startswith("@@")]
    if len(shown) > _MAX_CHANGED_LINES:
        shown = [*shown[:_MAX_CHANGED_LINES], f"  … {len(shown) - _MAX_CHANGED_LINES} more lines"]
    return PinChange(kind=kind, part=part, tool=tool, lines=tuple(line[:1] + " " + line[1:] for line in shown))


def _lines(definition: Mapping[str, JsonValue]) -> list[str]:
    """Return a definition as lines for people, with its description line by line, and escapes for what is not seen."""
    rest = {key: value for key, value in definition.items() if key != "description" and value is not None}
    description = definition.get("description")
    text = _text_lines(description) if isinstance(description, str) else []
    return [*(f"description: {line}" for line in text), *map(printable, _json(rest).splitlines()[1:-1])]


def _text_lines(text: str | None) -> list[str]:
    return [printable(line) for line in (text or "").splitlines()]


def _package_lines(package: ServerPackage | None) -> list[str]:
    return [] if package is None else [printable(package.shown)]


class LockFile:
    """A lock file that is read again when it changes. A file that is broken or gone leaves the pins as they were."""

    def __init__(self, path: Path) -> None:
        """Read the file, which need not exist. Raises `LockFileError`."""
        self.path = path
        self.problem: str | None = None
        """Why the pins in force are not those of the file; None if they are."""
        self._read_version = file_version(path)
        self._pins: Mapping[str, ServerPin] = MappingProxyType(read_lock(path) or {})

    @property
    def current(self) -> Mapping[str, ServerPin]:
        """The pins in force, by server: the same object until they change."""
        version = file_version(self.path)
        if version != self._read_version:
            self._read_version = version
            self._load()
        return self._pins

    def _load(self) -> None:
        try:
            pins = read_lock(self.path)
            if pins is None and self._pins:
                raise LockFileError(
                    f"{self.path} is gone. Restore it, or pin the servers again: after the next start they have no pins"
                )
        except LockFileError as error:
            self.problem = f"{error}."
            log.error("The previous pins of MCP servers stay in force: %s", self.problem)  # noqa: TRY400 (for operators)
            return
        self.problem = None
        for name in self._pins.keys() - (pins or {}).keys():
            log.warning("The MCP server %s is no longer pinned: %s has no record of it", name, self.path)
        self._pins = MappingProxyType(pins or {})
        log.info("Pins of MCP servers loaded", extra={"servers": len(self._pins)})


def file_version(path: Path) -> tuple[int, ...] | None:
    """Differs when a file, or what it links to, was written or replaced; None for a file that does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
