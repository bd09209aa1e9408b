"""The package that `npx` or `uvx` runs for an MCP server, as far as the command and the local caches tell it.

Nothing is started or downloaded. What cannot be determined is None: an unknown version is better than a wrong one.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from outlast.activities.mcp_servers.contracts import ServerPackage

_NPX_VALUES = frozenset({"--package", "-p", "--cache", "--registry", "--workspace", "-w", "--prefix", "--userconfig"})
_UVX_VALUES = frozenset(
    {"--from", "--with", "--python", "-p", "--index", "--index-url", "-i", "--extra-index-url", "--with-editable"}
    | {"--find-links", "-f", "--constraints", "-c", "--overrides", "--env-file", "--refresh-package", "--directory"}
)
_NPM_NAME = re.compile(r"(?P<name>(?:@[a-z0-9~._-]+/)?[a-z0-9~._-]+)(?:@(?P<version>.+))?", re.IGNORECASE)
_PYPI_NAME = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[^\]]*\])?\s*(?:(?:==|@)\s*(?P<version>[^\s,;]+))?"
)
_EXACT = re.compile(r"\d+(?:\.\d+)*[A-Za-z0-9.+!-]*")
_MAX_FILE_BYTES = 16 * 1024 * 1024


def package_of(
    command: str, args: Sequence[str], cwd: Path, environ: Mapping[str, str], home: Path | None = None
) -> ServerPackage | None:
    """Return the package that a command runs; None if it is not run by `npx` or `uvx`. Blocks on files."""
    words = [Path(command).name, *args]
    home = Path.home() if home is None else home
    match words:
        case ["npx", *rest]:
            return _npm(rest, cwd, environ, home)
        case ["npm", "exec" | "x", *rest]:
            return _npm(rest, cwd, environ, home)
        case ["uvx", *rest]:
            return _pypi(rest, environ, home)
        case ["uv", "tool", "run", *rest]:
            return _pypi(rest, environ, home)
        case _:
            return None


def _wanted(args: Sequence[str], names: Sequence[str], with_values: frozenset[str]) -> str | None:
    """Return the value of the first option of `names`, else the first word that is neither option nor its value."""
    first, index = None, 0
    while index < len(args) and first is None:
        name, equals, value = args[index].partition("=")
        following = value if equals else args[index + 1] if index + 1 < len(args) else ""
        if name in names:
            return following
        if not name.startswith("-"):
            first = args[index]
        index += 2 if name in with_values and not equals else 1
    return first


def _npm(args: Sequence[str], cwd: Path, environ: Mapping[str, str], home: Path) -> ServerPackage | None:
    spec = _wanted(args, ("--package", "-p"), _NPX_VALUES) or ""
    found = _NPM_NAME.fullmatch(spec)
    if found is None:
        return None
    name, wanted = found["name"], found["version"]
    cache = Path(environ.get("npm_config_cache") or environ.get("NPM_CONFIG_CACHE") or home / ".npm")
    key = hashlib.sha512(spec.encode()).hexdigest()[:16]  # as libnpmexec names the folder of one package
    for folder in (cwd, cache / "_npx" / key):
        installed = _json(folder / "node_modules" / name / "package.json").get("version")
        if isinstance(installed, str):
            return ServerPackage(kind="npm", name=name, version=installed, integrity=_npm_integrity(folder, name))
    return ServerPackage(kind="npm", name=name, version=wanted if wanted and _EXACT.fullmatch(wanted) else None)


def _npm_integrity(folder: Path, name: str) -> str | None:
    for lock in (folder / "node_modules" / ".package-lock.json", folder / "package-lock.json"):
        packages = _json(lock).get("packages")
        entry = cast("dict[str, object]", packages).get(f"node_modules/{name}") if isinstance(packages, dict) else None
        integrity = cast("dict[str, object]", entry).get("integrity") if isinstance(entry, dict) else None
        if isinstance(integrity, str):
            return integrity
    return None


def _pypi(args: Sequence[str], environ: Mapping[str, str], home: Path) -> ServerPackage | None:
    found = _PYPI_NAME.fullmatch((_wanted(args, ("--from",), _UVX_VALUES) or "").strip())
    if found is None:
        return None
    name, wanted = re.sub(r"[-_.]+", "-", found["name"]).lower(), found["version"]
    exact = wanted if wanted and _EXACT.fullmatch(wanted) else None
    cached = _installed_wheels(name, environ, home)
    if exact is not None:
        return ServerPackage(kind="pypi", name=name, version=exact, integrity=cached.get(exact))
    if len(cached) != 1:  # uvx takes the newest that fits: several tell nothing
        return ServerPackage(kind="pypi", name=name)
    ((version, integrity),) = cached.items()
    return ServerPackage(kind="pypi", name=name, version=version, integrity=integrity)


def _installed_wheels(name: str, environ: Mapping[str, str], home: Path) -> dict[str, str | None]:
    """Return the digests of the wheels of a project that uv's cache and its tools have unpacked, by version."""
    cache = Path(environ.get("UV_CACHE_DIR") or Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "uv")
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    tools = Path(environ.get("UV_TOOL_DIR") or data / "uv" / "tools")
    folders = [*cache.glob("archive-v*/*"), *(tools / name).glob("lib/python*/site-packages")]
    start = f"{name.replace('-', '_')}-"
    found: dict[str, str | None] = {}
    for folder in folders:
        for site in (folder, *folder.glob("lib/python*/site-packages")):
            for info in site.glob("*.dist-info"):
                project, _, version = info.name.removesuffix(".dist-info").rpartition("-")
                if re.sub(r"[-_.]+", "_", project).lower() + "-" == start:
                    found.setdefault(version, _record_digest(info / "RECORD"))
    return found


def _record_digest(record: Path) -> str | None:
    """Return the digest of the files of a wheel by its RECORD: without what differs between installations."""
    lines = sorted(
        line
        for line in _content(record).decode(errors="replace").splitlines()
        if ",sha256=" in line and not line.startswith("..") and not re.search(r"\.dist-info/(?!METADATA|entry_)", line)
    )
    return f"sha256-of-record:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}" if lines else None


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_content(path))
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _content(path: Path) -> bytes:
    """Return what a file has; nothing for one that is missing, too large, or not readable."""
    try:
        if os.path.getsize(path) > _MAX_FILE_BYTES:  # noqa: PTH202 (one call)
            return b""
        return path.read_bytes()
    except OSError:
        return b""
