"""`make bundle`: `dist/outlast-VERSION.mcpb`, a bundle for desktop clients, and `server.json` for the MCP registry.

The bundle holds the wheel and the versions of the lock file; the client's uv fetches what it depends on when it is
first started. Formats: https://github.com/modelcontextprotocol/mcpb (MANIFEST.md, version 0.4) and
https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json. Publishes nothing.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_LOCK = ROOT / "deploy" / "images" / "embedded.lock"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+==[^\s\\]+(?: ; [^\\]+?)?)(?: \\)?$", re.MULTILINE)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the bundle: the same contents make the same bundle."""
_DESCRIPTION = "Runs Apify Actors and other tools durably: calls survive crashes and are paid once."
_WHO_PAYS = "An Apify token, whose account pays. Without one, calls go to the sandbox platform on this machine."
_NAME = "dev.outlast/outlast"
_SERVER = '''\
"""Starts `outlast mcp`, without the variables that its user has left empty."""

import os
import sys

for name in ("APIFY_TOKEN", "OUTLAST_DEFAULT_TOOLS", "TOOLS", "OUTLAST_MODE"):
    if os.environ.get(name, "").startswith("${") or not os.environ.get(name):
        os.environ.pop(name, None)

from outlast.cli.main import main

sys.argv = ["outlast", "mcp", *sys.argv[1:]]
main()
'''


def main() -> None:
    """Write both files into the folder that the command line names."""
    parser = argparse.ArgumentParser(prog="make bundle", description=__doc__)
    parser.add_argument("--name", default=_NAME, help="name in the registry, within a namespace that is yours")
    parser.add_argument("--url", help="where the bundle will be downloaded from; server.json then offers it, too")
    parser.add_argument("--wheel", type=Path, help="a wheel that is built already")
    parser.add_argument("--out", type=Path, default=Path("dist"))
    given = parser.parse_args()
    if not re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", given.name):
        sys.exit(f"{given.name!r} is no name for the registry: --name io.github.you/outlast")
    given.out.mkdir(parents=True, exist_ok=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    bundle = given.out / f"outlast-{version}.mcpb"
    with tempfile.TemporaryDirectory() as folder:
        pack(given.wheel or build_wheel(Path(folder)), version, bundle)
    server = given.out / "server.json"
    server.write_text(_text(server_json(given.name, version, bundle, given.url)))
    print(f"{bundle}\n{server}\nNothing is published.")


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this repository into `folder`."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode != 0:
        sys.exit("The wheel cannot be built.")
    return next(folder.glob("*.whl"))


def pack(wheel: Path, version: str, bundle: Path) -> None:
    """Write the bundle: a zip archive with the manifest at its root."""
    files = {
        "manifest.json": _text(manifest(version)).encode(),
        "pyproject.toml": project(wheel.name, version).encode(),
        "server.py": _SERVER.encode(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    unfinished = bundle.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    shutil.move(unfinished, bundle)


def manifest(version: str) -> dict[str, Any]:
    """What a client shows before it installs, what it asks, and how it starts the server."""
    return {
        "manifest_version": "0.4",
        "name": "outlast",
        "display_name": "Outlast",
        "version": version,
        "description": _DESCRIPTION,
        "long_description": (
            "Every tool call is a Temporal workflow: it survives the death of any process and the disconnection of its "
            "client, starts at most one paid run, and stops that run when it is cancelled. Starts a stack of its own."
        ),
        "author": {"name": "Outlast"},
        "license": "Apache-2.0",
        "keywords": ["apify", "actors", "durable-execution", "temporal", "mcp"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server.py"],
                "env": {
                    "APIFY_TOKEN": "${user_config.apify_token}",
                    "OUTLAST_MODE": "${user_config.mode}",
                    "OUTLAST_DEFAULT_TOOLS": "${user_config.tools}",
                    # By this name in the mode `apify`, whose connections have defaults of their own.
                    "TOOLS": "${user_config.tools}",
                },
            },
        },
        # The tools depend on what the user chooses; a client that wants to know them asks the server.
        "tools_generated": True,
        "prompts_generated": True,
        "user_config": {
            "apify_token": _option("Apify token", _WHO_PAYS, sensitive=True),
            "mode": _option("Mode", "How tools are presented; docs/mcp.md names the modes.", default="default"),
            "tools": _option("Tools", "Categories, tools and Actors to offer, comma-separated: actors,docs"),
        },
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": ">=3.11"}},
    }


def project(wheel: str, version: str) -> str:
    """The project that uv installs: the wheel beside it, and the versions that it was tested with."""
    pinned = _PINNED.findall(_LOCK.read_text())
    lines = "\n".join(f"    {json.dumps(requirement.strip())}," for requirement in pinned)
    return (
        f'[project]\nname = "outlast-bundle"\nversion = "{version}"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["outlast[embedded]=={version}"]\n\n'
        f"[tool.uv]\npackage = false\nenvironments = [\"sys_platform == 'linux'\"]\n"
        f"constraint-dependencies = [\n{lines}\n]\n\n"
        f'[tool.uv.sources]\noutlast = {{ path = "{wheel}" }}\n'
    )


def server_json(name: str, version: str, bundle: Path, url: str | None) -> dict[str, Any]:
    """What the registry is told. It offers the package, and the bundle where its address is known."""
    variables = [
        {"name": "APIFY_TOKEN", "description": _WHO_PAYS, "isRequired": False, "isSecret": True},
        {"name": "OUTLAST_MODE", "description": "How tools are presented.", "default": "default"},
    ]
    stdio = {"type": "stdio"}
    packages: list[dict[str, Any]] = [
        {
            "registryType": "pypi",
            "identifier": "outlast",
            "version": version,
            "runtimeHint": "uvx",
            "runtimeArguments": [{"type": "named", "name": "--with", "value": f"outlast[embedded]=={version}"}],
            "packageArguments": [{"type": "positional", "value": "mcp"}],
            "transport": stdio,
            "environmentVariables": variables,
        }
    ]
    if url is not None:
        digest = sha256(bundle.read_bytes()).hexdigest()
        packages.append({"registryType": "mcpb", "identifier": url, "fileSha256": digest, "transport": stdio})
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name,
        "title": "Outlast",
        "description": _DESCRIPTION,
        "version": version,
        "packages": packages,
    }


def _option(title: str, description: str, *, default: str = "", sensitive: bool = False) -> dict[str, Any]:
    option = {"type": "string", "title": title, "description": description, "required": False}
    return {**option, "sensitive": True} if sensitive else {**option, "default": default}


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
