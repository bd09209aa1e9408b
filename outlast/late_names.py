"""Names of a package whose modules are loaded when the names are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from outlast.extras import command_that_adds, extra_of


def late_names(
    package: str, modules: Mapping[str, tuple[str, ...]], *others: str
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`, which offers the names of these modules, and lists `others` too."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        """Load what `name` stands for, once."""
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
        return sorted({*vars(sys.modules[package]), *module_of, *others})

    return load, names
