"""The contracts that server and client share load no library of the server."""

import pkgutil
import subprocess
import sys

from outlast import contracts

HEAVY = (
    "temporalio",
    "mcp",
    "fastapi",
    "starlette",
    "httpx",
    "apify_client",
    "obstore",
    "jsonschema_rs",
    "openai",
    "anthropic",
)
MODULES = [module.name for module in pkgutil.iter_modules(contracts.__path__)]


def test_every_contract_module_is_covered() -> None:
    assert {"base", "outputs", "sessions", "tasks"} <= set(MODULES)


# One process for all of them: what the first loads is loaded, and named after it.
LOADED = f"""
import importlib, sys
for module in {MODULES!r}:
    importlib.import_module("outlast.contracts." + module)
    for heavy in {HEAVY!r}:
        if heavy in sys.modules:
            sys.exit(module + " loads " + heavy)
"""


def test_the_contract_modules_load_no_server_library() -> None:
    ended = subprocess.run([sys.executable, "-P", "-c", LOADED], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
