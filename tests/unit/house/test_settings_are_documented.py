"""Every setting is in docs/settings.md, with its default; and the page names no setting that does not exist."""

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings
from typer.main import get_command

from outlast.activities.secrets import secret_file_variables
from outlast.api.settings import ApiSettings
from outlast.cli.main import command_line
from outlast.deploy.local import ports
from outlast.deploy.local.config import StackConfig
from outlast.worker.bootstrap import OF_THE_COMMAND_LINE
from outlast.worker.settings import WorkerSettings

PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
ROWS = {
    name: row
    for row in PAGE.splitlines()
    if row.startswith("| `")
    for name in re.findall(r"`([A-Z_]+\*?)`", row.split("|")[1])
}


def variable(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else f"OUTLAST_{name.upper()}"


def settings() -> Iterator[tuple[str, FieldInfo]]:
    kinds: tuple[type[BaseSettings], ...] = (ApiSettings, WorkerSettings)
    for kind in kinds:
        for name, field in kind.model_fields.items():
            yield variable(name, field), field


def stack_ports() -> list[str]:
    return [f"OUTLAST_{name.upper()}" for name in StackConfig.model_fields if name.endswith("_port")]


def defaults_of_options(command: Any) -> Iterator[tuple[str, str, str]]:
    """Variable, flag and default, as `--help` shows it, of each option that has both a variable and a default.

    Left out are defaults that are a path of this machine.
    """
    for parameter in command.params:
        shown = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
        if isinstance(parameter.envvar, str) and isinstance(shown, str):
            yield parameter.envvar, parameter.opts[0], shown
    for child in getattr(command, "commands", {}).values():
        yield from defaults_of_options(child)


@pytest.mark.parametrize(("name", "field"), sorted(dict(settings()).items()))
def test_a_setting_is_documented_with_its_default(name: str, field: FieldInfo) -> None:
    assert name in ROWS, f"{name} is missing in docs/settings.md"
    default = field.default.value if isinstance(field.default, Enum) else field.default
    if field.default_factory is None and default not in (None, ""):
        text = str(default).lower() if isinstance(default, bool) else f"{default:g}" if _is_number(default) else default
        assert f"`{text}`" in ROWS[name].split("|")[2]


@pytest.mark.parametrize("name", stack_ports())
def test_a_port_of_the_stack_is_documented_with_its_default(name: str) -> None:
    default = getattr(ports, name.removeprefix("OUTLAST_").removesuffix("_PORT"))
    assert name in ROWS, f"{name} is missing in docs/settings.md"
    assert f"`{default}`" in ROWS[name].split("|")[2]


@pytest.mark.parametrize("name", sorted(OF_THE_COMMAND_LINE))
def test_a_variable_of_the_command_line_and_the_stack_is_documented(name: str) -> None:
    assert name in ROWS, f"{name} is missing in docs/settings.md"


@pytest.mark.parametrize(("name", "flag", "shown"), sorted(set(defaults_of_options(get_command(command_line())))))
def test_an_option_has_the_default_that_is_documented(name: str, flag: str, shown: str) -> None:
    cells = [cell.replace("`", "").strip() for cell in ROWS[name].split("|")]
    assert shown in cells[2]
    assert flag in cells[3]


def test_the_defaults_of_the_stack_are_documented() -> None:
    fields = {f"OUTLAST_{name.upper()}": field.default for name, field in StackConfig.model_fields.items()}
    told = {name: fields[name] for name in OF_THE_COMMAND_LINE & fields.keys() if isinstance(fields[name], int)}
    assert "OUTLAST_RETENTION_DAYS" in told
    assert {name for name, default in told.items() if f"`{default}`" not in ROWS[name].split("|")[2]} == set()


def test_the_file_of_every_secret_is_documented() -> None:
    files = secret_file_variables(ApiSettings) | secret_file_variables(WorkerSettings)
    assert len(files) >= 9
    assert {name for name in files if f"`{name}`" not in PAGE} == set()


def test_the_page_names_no_setting_that_does_not_exist() -> None:
    known = {name for name, _ in settings()} | set(stack_ports()) | set(OF_THE_COMMAND_LINE)
    assert {name for name in ROWS if name.startswith("OUTLAST_")} - known == set()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 100_000
