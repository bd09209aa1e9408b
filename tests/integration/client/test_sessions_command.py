"""`outlast sessions` against a real API."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outlast.cli.main import command_line
from outlast.client import Client, NotFound
from tests.support.providers.script import by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.service import Service

Outlast = Callable[..., Result]


@pytest.fixture
def outlast(service: Service, monkeypatch: pytest.MonkeyPatch) -> Outlast:
    monkeypatch.setenv("OUTLAST_URL", service.api_url)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(command_line(), ["sessions", *arguments], prog_name="outlast")


@pytest.fixture
def session(client: Client, provider: ProviderServer) -> str:
    """A conversation of one turn."""
    provider.script = by_position(says("It is blue."))
    begun = client.sessions.create(provider_id="generic", model_id="m", tools=["dev"])
    turn = client.sessions.send(begun.id, "Which colour has the sky?")
    assert client.sessions.wait(begun.id, turn.id).status == "completed"
    return begun.id


def test_a_conversation_is_listed_under_its_new_title(outlast: Outlast, session: str) -> None:
    assert outlast("rename", session, "Colours").exit_code == 0
    [line] = [line for line in outlast("ls").stdout.splitlines() if session in line]
    assert line.split() == [session, *line.split()[1:-3], "1", "m", "Colours"]


def test_a_conversation_is_printed_from_its_beginning(outlast: Outlast, session: str) -> None:
    assert outlast("get", session).stdout.splitlines() == ["user Which colour has the sky?", "assistant It is blue."]


def test_what_was_exported_is_imported_after_it_was_deleted(
    outlast: Outlast, session: str, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "chat.json"
    file.write_text(outlast("export", session).stdout)
    assert outlast("delete", session).exit_code == 0
    with pytest.raises(NotFound):
        client.sessions.get(session)
    imported = json.loads(outlast("import", str(file), "--json").stdout)
    assert [message.text for message in client.sessions.conversation(imported["id"])] == [
        "Which colour has the sky?",
        "It is blue.",
    ]


def test_an_import_that_the_server_refuses_says_why(outlast: Outlast, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"settings": {"providerId": "zai", "modelId": "gml-4.7"}, "turns": []}))
    refused = outlast("import", str(file))
    assert refused.exit_code == 2
    assert "has no model 'gml-4.7' that is known here" in refused.stderr
    assert "OUTLAST_MODEL_LIMITS" in refused.stderr


def test_a_file_that_is_no_export_is_refused_by_name(outlast: Outlast, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text("[]")
    refused = outlast("import", str(file))
    assert refused.exit_code == 2
    assert "list.json" in refused.stderr
    assert "it is not a JSON object" in " ".join(refused.stderr.replace("│", " ").split())
