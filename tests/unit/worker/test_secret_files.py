"""Secrets that stand in files: `NAME_FILE` for every secret `NAME`."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from outlast.activities.secrets import (
    is_secret,
    read_secret_files,
    secret_file_variables,
    store_credentials,
)
from outlast.api.settings import ApiSettings
from outlast.worker.settings import WorkerSettings, settings_errors


@pytest.mark.parametrize("kind", [ApiSettings, WorkerSettings])
def test_every_secret_of_the_settings_is_read_from_its_file(
    kind: type[ApiSettings] | type[WorkerSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {name for name, field in kind.model_fields.items() if is_secret(field)}
    variables = secret_file_variables(kind)
    for variable in variables:
        (tmp_path / variable).write_text("name:0123456789abcdef\n")
        monkeypatch.setenv(variable, str(tmp_path / variable))
    read = kind().model_dump(include=secrets - {"seal_keys"})
    assert {name: str(value.get_secret_value()) for name, value in read.items()} == dict.fromkeys(
        secrets - {"seal_keys"}, "name:0123456789abcdef"
    )
    assert len(variables) >= len(read) > 1


def test_a_variable_wins_over_its_file_and_an_empty_file_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full").write_text("from the file")
    (tmp_path / "empty").write_text("\n")
    for name, file in {"APIFY_TOKEN": "full", "OUTLAST_ZAI_API_KEY": "full", "OPENAI_API_KEY": "empty"}.items():
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / file))
    monkeypatch.setenv("APIFY_TOKEN", "of the variable")
    monkeypatch.setenv("OUTLAST_ZAI_API_KEY", "of the variable")
    settings = WorkerSettings()
    assert settings.apify_token is not None
    assert settings.zai_api_key is not None
    assert settings.apify_token.get_secret_value() == settings.zai_api_key.get_secret_value() == "of the variable"
    assert settings.openai_api_key is None


@pytest.mark.parametrize("content", [None, b"\xff\xfe secret"])
def test_a_file_that_cannot_be_read_is_told_by_its_variable_and_without_its_content(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("OUTLAST_API_KEYS_FILE", str(path))
    with pytest.raises(ValidationError) as raised:
        ApiSettings()
    told = settings_errors(raised.value)
    assert f"OUTLAST_API_KEYS_FILE: {path}" in told
    assert "secret" not in told


def test_credentials_of_the_store_come_from_files_unless_their_variables_are_set(tmp_path: Path) -> None:
    for name in ("id", "key"):
        (tmp_path / name).write_text(f"{name}\n")
    files = {"AWS_ACCESS_KEY_ID_FILE": str(tmp_path / "id"), "AWS_SECRET_ACCESS_KEY_FILE": str(tmp_path / "key")}
    assert store_credentials(files) == {"aws_access_key_id": "id", "aws_secret_access_key": "key"}
    assert store_credentials({**files, "AWS_SECRET_ACCESS_KEY": "set"}) == {"aws_access_key_id": "id"}
    assert store_credentials({}) == read_secret_files(WorkerSettings, {}) == {}
