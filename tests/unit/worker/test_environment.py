from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from outlast.api.settings import ApiSettings
from outlast.cli.main import command_line
from outlast.deploy.local.config import StackConfig
from outlast.worker.bootstrap import (
    OF_THE_API,
    OF_THE_COMMAND_LINE,
    known_variables,
    unknown_variables,
    variables_of,
)
from outlast.worker.settings import WorkerSettings


def options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        names = parameter.envvar or ()
        yield from [names] if isinstance(names, str) else names
    for child in getattr(command, "commands", {}).values():
        yield from options(child)


def test_the_list_of_the_api_is_what_it_reads() -> None:
    assert variables_of(ApiSettings) - variables_of(WorkerSettings) == OF_THE_API


def test_the_list_of_the_command_line_is_what_it_and_the_stack_read() -> None:
    of_the_stack = {f"OUTLAST_{name.upper()}" for name in StackConfig.model_fields if name.endswith("_port")}
    of_the_sandbox = {"OUTLAST_SANDBOX_TOKEN"}
    read = set(options(get_command(command_line()))) | of_the_stack | of_the_sandbox
    assert read - variables_of(WorkerSettings) - variables_of(ApiSettings) == OF_THE_COMMAND_LINE


@pytest.mark.parametrize("misspelt", ["OUTLAST_API_KEY", "OUTLAST_APIKEYS", "OUTLAST_API_KEYZ"])
def test_a_misspelt_variable_is_told_with_the_name_that_was_meant(misspelt: str) -> None:
    (line,) = unknown_variables({misspelt: "secret", "OUTLAST_MODE": "default", "PATH": "/bin"})
    assert line == f"{misspelt} is not a setting of Outlast. Did you mean OUTLAST_API_KEYS?"
    assert "secret" not in line


def test_a_variable_that_is_like_none_is_told_to_be_unset() -> None:
    (line,) = unknown_variables({"OUTLAST_ZZZZZZZZ": "1"})
    assert "Unset it" in line


def test_known_variables_are_no_mistake() -> None:
    assert unknown_variables(dict.fromkeys(known_variables(), "1")) == ()


def test_what_kubernetes_adds_for_a_service_called_outlast_is_no_mistake() -> None:
    links = ("OUTLAST_SERVICE_HOST", "OUTLAST_SERVICE_PORT_HTTP", "OUTLAST_PORT", "OUTLAST_API_PORT_8400_TCP_ADDR")
    assert unknown_variables(dict.fromkeys(links, "10.0.0.1")) == ()
