"""Public names of a package, loaded when they are first used (PEP 562). The stub of the package lists them."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from outlast.extras import command_that_adds, extra_of


def lazy_exports(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of `package`, whose `__init__.py` is `file`.

    Type checkers read the same `__init__.pyi`: an entry is `from module import name as name`.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text())
    module_of = {
        entry.name: statement.module
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for entry in statement.names
        if entry.asname == entry.name
    }

    def load(name: str) -> object:
        """Load `name`, once. Raises `ModuleNotFoundError` with the command that adds a missing extra."""
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(module_of[name]), name)
        except ModuleNotFoundError as error:
            if (extra := extra_of(error)) is None:
                raise
            adds = command_that_adds(extra)
            raise ModuleNotFoundError(f"outlast.{name} needs the {extra} part: {adds}", name=error.name) from None
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        """The public names, loaded or not."""
        return sorted({*vars(sys.modules[package]), *module_of})

    return load, names, sorted(module_of)
