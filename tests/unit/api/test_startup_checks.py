"""Wrong settings keep the API from starting, with one line each that names the variable and what to write."""

import os
from pathlib import Path

import pytest

from outlast.api.settings import ApiSettings
from outlast.api.startup_checks import settings_problems
from tests.support.processes.module_process import ModuleProcess
from tests.support.stacks.service import SEAL_KEYS


def test_the_defaults_are_fine() -> None:
    assert settings_problems(ApiSettings()) == []


@pytest.mark.parametrize(
    "given",
    [
        {"default_tools": "actors,docs,get-actor-run,apify/rag-web-browser"},
        {"default_actors": "user/an.actor-1,user~name,oeiQgfg5fsmIJB7Cn"},
        {"mode": "openai", "default_tools": "ui"},
    ],
)
def test_categories_tools_and_actors_are_fine(given: dict[str, str]) -> None:
    assert settings_problems(ApiSettings.model_validate(given)) == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"mode": "opnai"}, ["OUTLAST_MODE=opnai", "default, openai"]),
        ({"default_tools": "actors,dcos"}, ["OUTLAST_DEFAULT_TOOLS", "'dcos'", "docs"]),
        ({"default_actors": "rag web browser"}, ["OUTLAST_DEFAULT_ACTORS", "'rag web browser'", "user/name"]),
        ({"api_host": "0.0.0.0"}, ["OUTLAST_API_HOST=0.0.0.0", "OUTLAST_API_KEYS"]),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(given: dict[str, str], named: list[str]) -> None:
    (problem,) = settings_problems(ApiSettings.model_validate(given))
    assert "\n" not in problem
    assert [part for part in named if part not in problem] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("OUTLAST_PERMISSIONS", "ci-may-not", "is not a permission: write CALLER:TOOL=allow"),
        ("OUTLAST_API_KEYS", "short", "name:key"),
        ("OUTLAST_MODE", "opnai", "OUTLAST_MODE=opnai is not a mode"),
        ("OUTLAST_DEFAULT_TOOLS", "dcos", "'dcos' is not a category"),
        ("OUTLAST_SEAL_KEYS", "k:not base64", "Sealing key 'k' is not base64"),
    ],
)
def test_the_process_ends_with_one_line_and_no_traceback(tmp_path: Path, name: str, value: str, told: str) -> None:
    inherited = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    environment = {**inherited, "OUTLAST_DATA_DIR": str(tmp_path), "OUTLAST_SEAL_KEYS": SEAL_KEYS, name: value}

    log = tmp_path / "api.log"
    assert ModuleProcess("outlast.api", (), log=log, environment=environment).wait(180) == 1
    (line,) = log.read_text().splitlines()
    assert told in line
