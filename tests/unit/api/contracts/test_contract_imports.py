"""The REST API's contracts are for clients too: importing them starts neither Temporal nor a web framework."""

import pkgutil
import subprocess
import sys

from outlast.api import contracts

HEAVY = ("temporalio", "fastapi", "starlette", "httpx", "apify_client", "obstore")
MODULES = [module.name for module in pkgutil.iter_modules(contracts.__path__)]


def test_every_contract_module_is_covered() -> None:
    assert {"events", "outputs", "problems", "sessions", "tasks", "tools"} <= set(MODULES)


# One process for all of them: what the first loads is loaded, and named after it.
LOADED = f"""
import importlib, sys
for module in {MODULES!r}:
    importlib.import_module("outlast.api.contracts." + module)
    for heavy in {HEAVY!r}:
        if heavy in sys.modules:
            sys.exit(module + " loads " + heavy)
"""


def test_the_contract_modules_load_no_server_library() -> None:
    ended = subprocess.run([sys.executable, "-P", "-c", LOADED], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
