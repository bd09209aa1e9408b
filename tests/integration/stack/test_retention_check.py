"""`outlast doctor` compares the retention of a real Temporal server with what refers to ended tasks."""

from pathlib import Path

import pytest

from outlast.cli.checks.components import Surroundings
from outlast.cli.checks.temporal import check_namespace
from outlast.contracts.checks import Check
from outlast.deploy.local.config import Component
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import find_running
from tests.support.stacks.stack_config import free_ports_config


async def retention_row(data_dir: Path, days: int) -> Check:
    """What doctor says of a stack that keeps ended tasks for so long."""
    config = free_ports_config(data_dir, Component.TEMPORAL).model_copy(update={"retention_days": days})
    async with Stack(config):
        # What the user has set for another cluster must not matter.
        environment = {"TEMPORAL_ADDRESS": "temporal.example:7233", "TEMPORAL_API_KEY": "planted"}
        rows = await check_namespace(Surroundings(data_dir, find_running(data_dir), environment))
    return next(row for row in rows if row.name == "Retention")


@pytest.mark.parametrize(("days", "health"), [(30, "ok"), (29, "warn")])
async def test_a_retention_that_is_too_short_is_told(tmp_path: Path, days: int, health: str) -> None:
    check = await retention_row(tmp_path, days)
    assert check.health == health
    assert f"ended tasks are kept for {days} days" in check.finding
    if health == "warn":
        assert "sessions live for 30 days" in check.finding
        assert "OUTLAST_RETENTION_DAYS=30" in str(check.advice)


async def test_outputs_that_are_stored_for_longer_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_OUTPUT_TTL_SECONDS", str(40 * 86_400))
    check = await retention_row(tmp_path, 30)
    assert "outputs are stored for 40 days" in check.finding
    assert "OUTLAST_RETENTION_DAYS=40" in str(check.advice)
