"""Durable tool execution for AI agents.

Write tools with `tool`, `plain` and `Arguments` (docs/writing-a-tool.md); call them with `Client` and `AsyncClient`
(docs/python-client.md). Importing this package loads none of its parts: each is loaded when its name is first used.
`__init__.pyi` lists the names.
"""

from outlast.lazy_exports import lazy_exports

_load, __dir__, __all__ = lazy_exports(__name__, __file__)
__all__ += ["__version__"]


def __getattr__(name: str) -> object:
    """Load `name`, once."""
    if name != "__version__":
        return _load(name)
    from importlib.metadata import version  # noqa: PLC0415 (20 ms)

    globals()[name] = version("outlast")
    return globals()[name]
