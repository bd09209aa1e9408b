"""Program that tries to load modules of tools: `python -m outlast.workflows.tools.loadable MODULE...`.

It prints a JSON object: `files`, their source files, including those that they import from the user's folders, with a
digest of each, and `tools`, their tools with `name`, `description` and `input_schema`. For a module that cannot be used
it prints one line on standard error, with exit code 1.
"""

import contextlib
import hashlib
import json
import site
import sys
import sysconfig
from pathlib import Path

import outlast
from outlast.workflows.tools.extensions import ExtensionError, load_extensions
from outlast.workflows.tools.registry import loaded_tools, tools_of


def own_source_files(loaded_before: set[str]) -> dict[str, str]:
    """Return the digest of each source file imported since, except those of Python and of installed packages."""
    installed = _installed_folders()
    files = {
        Path(file).resolve()
        for name, module in sys.modules.copy().items()
        if name not in loaded_before and (file := getattr(module, "__file__", None)) and file.endswith(".py")
    }
    own = [file for file in files if not any(file.is_relative_to(folder) for folder in installed)]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(own)}


def _installed_folders() -> list[Path]:
    schemes = [path for name, path in sysconfig.get_paths().items() if name.endswith(("lib", "stdlib"))]
    folders = [*schemes, *site.getsitepackages(), site.getusersitepackages(), str(Path(outlast.__file__).parent)]
    # In the repository the layers are links, so a file of Outlast resolves to a folder beside the package.
    floors = [path for path in Path(outlast.__file__).parent.iterdir() if path.is_dir()]
    return [Path(folder).resolve() for folder in (*folders, *floors)]


def main(names: list[str]) -> int:
    """Return exit code 0 if all modules can be loaded."""
    loaded_before = set(sys.modules)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # the user's modules may print
            load_extensions(names)
    except ExtensionError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    loaded = loaded_tools()
    tools = [
        {"name": one.name, "description": one.description, "input_schema": one.input_schema}
        for one in tools_of("default")
        if one.name in loaded
    ]
    sys.stdout.write(json.dumps({"files": own_source_files(loaded_before), "tools": tools}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
