"""What workflow code asks Temporal for is listed, path by path; a change of what a release did is gated by a patch."""

from pathlib import Path

import pytest

from tests.histories.commands import HISTORIES, LISTING, UNRELEASED, Listing, changed, listing, read, written

RELEASES = sorted(path.parent for path in HISTORIES.glob(f"*/{LISTING}") if path.parent != UNRELEASED)
RELEASED = """
@workflow.defn
class Call:
    @workflow.run
    async def run(self):
        self._note()
        await workflow.execute_activity_method(Runs.start, task_queue=TOOLS)
        if self._is_long:
            await self._wait()

    @workflow.signal
    def stop(self):
        self._stopped = True

    async def _wait(self):
        await workflow.execute_activity_method(Runs.wait, 1, task_queue=RUNS)

    def _note(self):
        workflow.upsert_memo({"state": self._state})
"""


def of(source: str, folder: Path) -> Listing:
    (folder / "call.py").write_text(source)
    return listing(folder)


def test_the_listing_is_that_of_todays_code() -> None:
    assert (UNRELEASED / LISTING).read_text() == written(listing()), (
        "Workflow code asks for something else, or in another order. Gate what a release has run with "
        "workflow.patched(...), then write the listing anew: python -m tests.histories.commands"
    )


def test_what_every_release_did_is_still_done_in_its_histories() -> None:
    found = {release.name: changed(listing(), read(release)) for release in RELEASES}
    assert not any(found.values()), f"Gate the change of these functions with workflow.patched(...): {found}"


def test_a_listing_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / LISTING).write_text(written(listing()))
    assert read(tmp_path) == listing()


@pytest.mark.parametrize(
    ("old", "new", "function"),
    [
        ("self._is_long:", "not self._is_short:", None),
        ("Runs.wait, 1", "Runs.wait, 2", None),
        ("Runs.wait", "Runs.follow", "_wait"),
        ("task_queue=RUNS", "task_queue=TOOLS", "_wait"),
        ("await self._wait()", "await asyncio.sleep(1)", "run"),
        ("self._stopped = True", "workflow.upsert_memo({'stopped': True})", "stop"),
        ('"state"', '"status"', "_note"),
        ("self._note()\n        await", "await", "run"),
        ("        if self._is_long:", "        workflow.uuid4()\n        if self._is_long:", "run"),
    ],
)
def test_a_change_of_what_is_asked_for_is_noticed(old: str, new: str, function: str | None, tmp_path: Path) -> None:
    assert old in RELEASED
    found = changed(of(RELEASED.replace(old, new), tmp_path), of(RELEASED, tmp_path))
    assert found == ([f"call.py:Call.{function}"] if function else [])


def test_a_gated_change_passes_until_a_release_has_it(tmp_path: Path) -> None:
    wait = "await workflow.execute_activity_method(Runs.wait, 1, task_queue=RUNS)"
    gated = f"""if workflow.patched("follow"):
            await workflow.execute_activity_method(Runs.follow, task_queue=RUNS)
        else:
            {wait}"""
    first, second = of(RELEASED, tmp_path), of(RELEASED.replace(wait, gated), tmp_path)
    third = of(RELEASED.replace(wait, gated.replace("Runs.follow", "Runs.look")), tmp_path)
    assert (changed(second, first), changed(third, first)) == ([], [])
    assert changed(second, second) == []
    assert changed(third, second) == ["call.py:Call._wait"]
