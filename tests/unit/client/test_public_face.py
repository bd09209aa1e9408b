"""`import outlast`: quick, and without any part until it is used."""

import subprocess
import sys
from types import ModuleType

import pytest

import outlast
import outlast.client

_HEAVY = ("temporalio", "fastapi", "starlette", "httpx", "pydantic", "outlast.client", "outlast.workflows")
_REPORT = """
import sys, time
began = time.process_time()
import outlast
seconds = time.process_time() - began
{use}
print(seconds, *sys.modules)
"""


def imported(use: str = "") -> tuple[float, set[str]]:
    """The processor's seconds for `import outlast`, and all modules that are loaded after `use`."""
    command = [sys.executable, "-c", _REPORT.format(use=use)]
    seconds, *modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), set(modules)


def test_importing_it_loads_no_part() -> None:
    _, modules = imported()
    assert modules.isdisjoint(_HEAVY)


def test_importing_it_is_quick() -> None:
    assert min(imported()[0] for _ in range(5)) < 0.05


def test_the_client_needs_neither_temporal_nor_the_server() -> None:
    _, modules = imported("outlast.Client, outlast.AsyncClient, outlast.TaskFailed")
    assert "httpx" in modules
    assert modules.isdisjoint(
        {"temporalio", "fastapi", "starlette", "outlast.api", "outlast.workflows.runtime.context"}
    )


def test_writing_a_tool_does_not_load_the_client() -> None:
    _, modules = imported("outlast.tool, outlast.plain, outlast.Arguments")
    assert modules.isdisjoint({"outlast.client", "outlast.api", "fastapi"})


@pytest.mark.parametrize("package", [outlast, outlast.client], ids=lambda package: package.__name__)
def test_every_name_of_the_stub_can_be_loaded(package: ModuleType) -> None:
    assert package.__all__
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)


@pytest.mark.parametrize("package", [outlast, outlast.client], ids=lambda package: package.__name__)
def test_another_name_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = package.nothing_of_this_name
