"""Which version may work on the data of which."""

from pathlib import Path

import pytest

from outlast.deploy.local import data_directory
from outlast.deploy.local.config import StackConfig, look_outside
from outlast.deploy.local.data_directory import VERSION_FILE, LastVersion, take_over, write_last_version
from outlast.deploy.local.errors import IncompleteDataError, NewerDataError


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
    monkeypatch.setattr(data_directory, "own_version", lambda: own)
    write_last_version(tmp_path, LastVersion(outlast_version=last))
    if is_refused:
        with pytest.raises(NewerDataError, match="Install"):
            take_over_data(tmp_path)
    else:
        take_over_data(tmp_path)
    assert (last if is_refused else own) in (tmp_path / VERSION_FILE).read_text()


def test_new_directories_become_this_versions_and_illegible_ones_are_refused(tmp_path: Path) -> None:
    take_over_data(tmp_path)
    assert "outlast_version" in (tmp_path / VERSION_FILE).read_text()
    (tmp_path / VERSION_FILE).write_text("{")
    with pytest.raises(IncompleteDataError, match="is empty or damaged"):
        take_over_data(tmp_path)
    assert (tmp_path / VERSION_FILE).read_text() == "{"


def take_over_data(data_dir: Path) -> None:
    take_over(StackConfig(data_dir=data_dir, environment={}), look_outside({}))
