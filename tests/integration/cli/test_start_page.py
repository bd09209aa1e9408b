"""`outlast` alone shows where to start, and shared options may precede the command."""

import pytest

from outlast.cli.main import command_line
from tests.integration.cli.answers import ID, task
from tests.integration.cli.conftest import Outlast
from tests.integration.cli.test_terminal import environment
from tests.support.http.fake_api import FakeApi
from tests.support.processes.terminal import on_terminal, outlast_command

URL_OF_NOBODY = "http://127.0.0.1:9"


def test_outlast_alone_shows_three_commands_and_the_names_of_all(fake_api: FakeApi) -> None:
    with on_terminal(outlast_command(), environment(fake_api), columns=80) as terminal:
        assert terminal.end() == 0
    lines = [line.rstrip() for line in terminal.screen.splitlines()]
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[1] for line in lines if line.startswith("  outlast ")] == [
        "outlast demo",
        "outlast dev FILE",
        "outlast call TOOL -a NAME=VALUE",
    ]
    app = command_line()
    names = {group.typer_instance.info.name for group in app.registered_groups if group.typer_instance}
    names |= {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert names - {None, *terminal.screen.split()} == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--json", "--url", "{url}", "tasks", "ls"),
        ("--url={url}", "tasks", "--json", "ls"),
        ("tasks", "--json", "--token", "secret", "ls", "--url", "{url}"),
        ("--json", "tasks", "ls", "--json", "--url", "{url}"),
    ],
)
def test_shared_options_before_the_command_are_those_after_it(
    fake_api: FakeApi, outlast: Outlast, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OUTLAST_URL", URL_OF_NOBODY)
    fake_api.on("GET", "/v1/tasks", {"tasks": [task()]})
    ended = outlast(*(one.format(url=fake_api.url) for one in arguments))
    assert ended.code == 0, ended.err
    assert [one["id"] for one in ended.document["tasks"]] == [ID]
    assert len(fake_api.requests("GET", "/v1/tasks")) == 1


def test_a_command_refuses_a_shared_option_that_it_does_not_have(outlast: Outlast) -> None:
    before, after = outlast("--url", URL_OF_NOBODY, "policy", "check"), outlast("policy", "check", "--url", "x")
    assert (before.code, after.code) == (2, 2)
    assert "No such option" in before.said
    assert "--url" in before.said


def test_other_options_before_the_command_are_refused(outlast: Outlast) -> None:
    ended = outlast("--limit", "3", "tasks", "ls")
    assert (ended.code, "No such option" in ended.said) == (2, True)
