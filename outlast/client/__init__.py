"""The Python client: `Client` and `AsyncClient`, their contracts and errors. docs/python-client.md describes them.

Importing this package loads none of its parts: each is loaded when its name is first used. `__init__.pyi` lists them.
"""

from outlast.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
