"""The roll of workers: who is on it, who is taken for dead, and by how many."""

from pathlib import Path

from outlast.worker.takeover.roll import Roll


def identities(roll: Roll) -> list[str]:
    found = roll.dead()
    for dead in found:
        dead.let_go()
    return [dead.identity for dead in found]


def test_who_is_entered_lives_and_whose_entry_is_not_held_is_dead(tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    first, second = Roll(folder, "1@host/aaaa"), Roll(folder, "1@host/bbbb")
    with first.entered() as entered, second.entered():
        assert entered
        (folder / "0.worker").write_text("7@host/cccc")
        assert identities(first) == identities(second) == ["7@host/cccc"]
    assert [path.name for path in folder.iterdir()] == ["0.worker"], "who leaves takes its entry along"


def test_a_dead_worker_is_given_to_one_taker_at_a_time_until_it_is_forgotten(tmp_path: Path) -> None:
    first, second = Roll(tmp_path, "1@host/aaaa"), Roll(tmp_path, "1@host/bbbb")
    (tmp_path / "0.worker").write_text("7@host/cccc")
    (dead,) = first.dead()
    assert identities(second) == []
    dead.let_go()
    assert identities(second) == ["7@host/cccc"], "the first taker has died over it"
    dead.forget()
    assert identities(second) == []


def test_without_a_folder_nobody_is_entered(tmp_path: Path) -> None:
    (tmp_path / "workers").write_text("a file")
    with Roll(tmp_path / "workers", "1@host/aaaa").entered() as entered:
        assert not entered
