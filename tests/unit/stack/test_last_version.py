"""Which version may work on the data of which."""

from pathlib import Path

import pytest

from outlast.deploy.local.backups import last_version
from outlast.deploy.local.backups.errors import NewerDataError
from outlast.deploy.local.backups.last_version import FILE_NAME, take_over_data, write_last_version


@pytest.mark.parametrize(
    ("last", "own", "is_refused"),
    [
        ("0.2.0", "0.2.0", False),
        ("0.9.0", "0.10.0", False),
        ("0.10.0", "0.9.9", True),
        ("0.2.0rc1", "0.2.0", False),
        ("0.2.0", "0.2.0rc1", True),
        ("0.2.0rc2", "0.2.0rc10", False),
        ("0.2.0b1", "0.2.0a2", True),
        ("a build of mine", "0.2.0", False),
    ],
)
def test_data_is_never_given_to_an_older_version(
    last: str, own: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_version, "own_version", lambda: own)
    write_last_version(tmp_path, last)
    if is_refused:
        with pytest.raises(NewerDataError, match="Install"):
            take_over_data(tmp_path)
    else:
        take_over_data(tmp_path)
    assert (last if is_refused else own) in (tmp_path / FILE_NAME).read_text()


def test_new_and_illegible_directories_become_this_versions(tmp_path: Path) -> None:
    for text in (None, "{"):
        if text is not None:
            (tmp_path / FILE_NAME).write_text(text)
        take_over_data(tmp_path)
        assert "outlast_version" in (tmp_path / FILE_NAME).read_text()
