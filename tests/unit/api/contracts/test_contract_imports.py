"""The REST API's contracts are for clients too: importing them starts neither Temporal nor a web framework."""

import pkgutil
import subprocess
import sys

import pytest

from outlast.api import contracts

HEAVY = ("temporalio", "fastapi", "starlette", "httpx", "apify_client", "obstore")
MODULES = [module.name for module in pkgutil.iter_modules(contracts.__path__)]


def test_every_contract_module_is_covered() -> None:
    assert {"events", "outputs", "problems", "sessions", "tasks", "tools"} <= set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_a_contract_module_loads_no_server_library(module: str) -> None:
    code = f"import sys, outlast.api.contracts.{module}; print([m for m in {HEAVY!r} if m in sys.modules])"

    loaded = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
