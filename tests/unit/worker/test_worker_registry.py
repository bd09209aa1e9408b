"""The registry of workers: live workers, workers taken for dead, and the number of takers."""

from pathlib import Path

from outlast.worker.failover import WorkerRegistry


def identities(registry: WorkerRegistry) -> list[str]:
    found = registry.dead()
    for dead in found:
        dead.let_go()
    return [dead.identity for dead in found]


def test_who_is_entered_lives_and_whose_entry_is_not_held_is_dead(tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    first, second = WorkerRegistry(folder, "1@host/aaaa"), WorkerRegistry(folder, "1@host/bbbb")
    with first.entered() as entered, second.entered():
        assert entered
        (folder / "0.worker").write_text("7@host/cccc")
        assert identities(first) == identities(second) == ["7@host/cccc"]
    assert [path.name for path in folder.iterdir()] == ["0.worker"], "who leaves takes its entry along"


def test_a_dead_worker_is_given_to_one_taker_at_a_time_until_it_is_forgotten(tmp_path: Path) -> None:
    first, second = WorkerRegistry(tmp_path, "1@host/aaaa"), WorkerRegistry(tmp_path, "1@host/bbbb")
    (tmp_path / "0.worker").write_text("7@host/cccc")
    (dead,) = first.dead()
    assert identities(second) == []
    dead.let_go()
    assert identities(second) == ["7@host/cccc"], "the first taker has died over it"
    dead.forget()
    assert identities(second) == []


def test_without_a_folder_nobody_is_entered(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("a file")
    with WorkerRegistry(tmp_path / "workers", "1@host/aaaa").entered() as entered:
        assert not entered
