"""What a backup holds, and which ones are refused. Of a working stack: tests/integration/stack/test_backup.py."""

import base64
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outlast.cli.main import command_line
from outlast.deploy.local import backups
from outlast.deploy.local.backups import back_up, require_finished_restore, restore
from outlast.deploy.local.data_directory import resumed_interval
from outlast.deploy.local.errors import BackupDamagedError, BackupError

KEY = base64.b64encode(bytes(32)).decode()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The folder of a stack, as far as a backup is concerned."""
    folder = tmp_path / "data"
    saved = {"outputs/manifests/one.json": "1", "seal.keys": f"k1:{KEY}", "sandbox-token": "t"}
    not_saved = {"outputs/parts/two.zst#3": "staged", "logs/api.log": "x", "stack.lock": ""}
    for name, text in {**saved, **not_saved}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "temporal").mkdir()
    with closing(sqlite3.connect(folder / "temporal" / "temporal.db")) as database:
        database.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES (7);"
            "CREATE TABLE namespaces (id, name); INSERT INTO namespaces VALUES (x'01', 'default')"
        )
    return folder


def test_all_that_belongs_together_comes_back_and_nothing_else(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("[defaults]")
    manifest = back_up(data_dir, tmp_path / "b", {"OUTLAST_POLICY_FILE": str(tmp_path / "rules.toml")})
    restore(tmp_path / "b", tmp_path / "new")
    expected = {"temporal/temporal.db", "outputs/manifests/one.json", "seal.keys", "sandbox-token", "policy.toml"}
    assert set(manifest.files) == expected
    found = {path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert found == {*expected, "restored.json", "version.json"}
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "new").rglob("*")} == {0}
    with closing(sqlite3.connect(tmp_path / "new" / "temporal" / "temporal.db")) as database:
        assert database.execute("SELECT x FROM t").fetchall() == [(7,)]


@pytest.mark.parametrize(
    ("environment", "with_secrets", "holds", "lacks"),
    [
        ({}, False, set[str](), {"seal.keys", "sandbox-token"}),
        ({"OUTLAST_SEAL_KEYS": f"k2:{KEY},k1:{KEY}"}, True, {"seal.keys"}, set[str]()),
        ({"OUTLAST_STORE_URL": "s3://bucket/prefix"}, True, {"seal.keys"}, {"outputs/manifests/one.json"}),
    ],
)
def test_keys_and_the_store_may_be_elsewhere(
    data_dir: Path, tmp_path: Path, environment: dict[str, str], with_secrets: bool, holds: set[str], lacks: set[str]
) -> None:
    manifest = back_up(data_dir, tmp_path / "b", environment, with_secrets=with_secrets)
    assert holds <= manifest.files.keys()
    assert not lacks & manifest.files.keys()
    assert manifest.store_url == environment.get("OUTLAST_STORE_URL")
    restore(tmp_path / "b", tmp_path / "new")
    if "OUTLAST_SEAL_KEYS" in environment:
        assert (tmp_path / "new" / "seal.keys").read_text() == f"k2:{KEY}\nk1:{KEY}\n"


def test_what_the_snapshot_names_is_there_even_if_it_is_swept_or_written_while_it_is_made(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = backups._snapshot

    def busy(database: Path, copy: Path) -> None:
        (data_dir / "outputs" / "manifests" / "late.json").write_text("written just before the snapshot")
        snapshot(database, copy)
        (data_dir / "outputs" / "manifests" / "one.json").unlink()

    monkeypatch.setattr(backups, "_snapshot", busy)
    files = back_up(data_dir, tmp_path / "b", {}).files
    assert {"outputs/manifests/one.json", "outputs/manifests/late.json"} <= files.keys()


def cut(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-200])


def flip(archive: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[len(data) // 2] ^= 1
    archive.write_bytes(data)


def test_no_bit_of_a_backup_can_be_flipped(data_dir: Path, tmp_path: Path) -> None:
    back_up(data_dir, tmp_path / "b", {})
    whole = (tmp_path / "b").read_bytes()
    for number, place in enumerate(range(8, len(whole), len(whole) // 50)):
        (tmp_path / "b").write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(BackupDamagedError):
            restore(tmp_path / "b", tmp_path / f"new{number}")


def replace(archive: Path) -> None:
    """Another file under the name of one that was backed up, as an attacker may write it."""
    manifest = backups.unpack(archive, archive.parent / "unpacked")
    with archive.open("wb") as file:
        writer = backups.ArchiveWriter(file)
        writer.add_bytes("seal.keys", b"mine")
        writer._files = dict(manifest.files)
        writer.finish(manifest)


def climb(archive: Path) -> None:
    manifest = backups.unpack(archive, archive.parent / "unpacked")
    with archive.open("wb") as file:
        writer = backups.ArchiveWriter(file)
        writer.add_bytes("../outside", b"x")
        writer.finish(manifest)


def other(archive: Path) -> None:
    archive.write_text("no archive")


@pytest.mark.parametrize("damage", [cut, flip, replace, climb, other])
def test_a_damaged_backup_is_refused_and_leaves_nothing_behind(
    data_dir: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    back_up(data_dir, tmp_path / "b", {})
    damage(tmp_path / "b")
    with pytest.raises(BackupDamagedError, match="Nothing was restored"):
        restore(tmp_path / "b", tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_nothing_is_overwritten(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    back_up(data_dir, tmp_path / "b", {})
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    before = {path: path.read_bytes() for path in (*data_dir.rglob("*"), tmp_path / "b") if path.is_file()}
    for command, told in (("backup", "exists already"), ("restore", "is not empty")):
        ended = CliRunner().invoke(command_line(), [command, str(tmp_path / "b"), "--data-dir", str(data_dir)])
        assert ended.exit_code == 1
        assert told in " ".join(ended.stderr.split())
    assert {path: path.read_bytes() for path in (*data_dir.rglob("*"), tmp_path / "b") if path.is_file()} == before


def test_a_stack_on_a_temporal_server_of_its_own_and_an_empty_folder_have_no_backup(
    data_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(BackupError, match="has its own backups"):
        back_up(data_dir, tmp_path / "b", {"TEMPORAL_ADDRESS": "temporal.example:7233"})
    with pytest.raises(BackupError, match="holds no tasks"):
        back_up(tmp_path / "nothing", tmp_path / "b", {})


def test_a_restored_directory_knows_since_when_it_does_the_work(data_dir: Path, tmp_path: Path) -> None:
    manifest = back_up(data_dir, tmp_path / "b", {})
    restore(tmp_path / "b", tmp_path / "new")
    interval = resumed_interval(tmp_path / "new")
    assert interval is not None
    assert interval.startswith(f"{manifest.backed_up_at.isoformat()}/")
    assert resumed_interval(tmp_path / "new") == interval, "later starts do not move its end"
    assert resumed_interval(data_dir) is None


def test_an_interrupted_restore_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "restoring").mkdir()
    with pytest.raises(BackupError, match="interrupted"):
        require_finished_restore(tmp_path)


def test_what_is_written_during_a_backup_is_not_missing_where_the_workflows_name_it(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database of the workflows is copied first, so whatever a copied workflow names is in the later copies."""
    (data_dir / "sandbox").mkdir()
    with closing(sqlite3.connect(data_dir / "sandbox" / "sandbox.sqlite")) as sandbox:
        sandbox.executescript("PRAGMA journal_mode = WAL; CREATE TABLE runs (id); CREATE TABLE users (id);")
    copy_database = backups._snapshot

    def copy_and_work_on(database: Path, copy: Path) -> None:
        copy_database(database, copy)
        if database.name == "temporal.db":  # a run and an output of a workflow that is copied already
            with closing(sqlite3.connect(data_dir / "sandbox" / "sandbox.sqlite")) as sandbox:
                sandbox.execute("INSERT INTO runs VALUES ('late')")
                sandbox.commit()
            (data_dir / "outputs" / "manifests" / "late.json").write_text("2")

    monkeypatch.setattr(backups, "_snapshot", copy_and_work_on)
    back_up(data_dir, tmp_path / "b", {})
    restore(tmp_path / "b", tmp_path / "new")
    with closing(sqlite3.connect(tmp_path / "new" / "sandbox" / "sandbox.sqlite")) as sandbox:
        assert sandbox.execute("SELECT id FROM runs").fetchall() == [("late",)]
    assert (tmp_path / "new" / "outputs" / "manifests" / "late.json").read_text() == "2"
