"""Between which moments another system went on with the tasks of a restored one."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from outlast.worker.settings import WorkerSettings


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22T10:00:00Z",
        "2026-11-22T10:00:00/2026-11-22T12:00:00",
        "2026-11-22T12:00:00Z/2026-11-22T10:00:00Z",
        "yesterday/today",
    ],
)
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="restored_interval"):
        WorkerSettings(restored_interval=text)


def test_it_matters_until_the_last_task_of_the_backup_must_have_ended() -> None:
    period = WorkerSettings(restored_interval="2026-11-22T10:00:00Z/2026-11-22T13:00:00+01:00").restored_period
    assert period is not None
    assert period.ended == datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert period.matters_at(period.ended + timedelta(days=30))
    assert not period.matters_at(period.ended + timedelta(days=32))
    assert WorkerSettings(restored_interval="").restored_period is None
