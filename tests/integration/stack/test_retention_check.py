"""`outlast doctor` compares the retention of a real Temporal server with what refers to ended tasks."""

from pathlib import Path

import pytest

from outlast.api.cli.checks.retention import check_retention
from outlast.deploy.local.addresses import StackAddresses
from outlast.deploy.local.config import Component
from outlast.deploy.local.stack import Stack
from tests.support.stacks.stack_config import free_ports_config


@pytest.mark.parametrize(("days", "health"), [(30, "ok"), (29, "warn")])
async def test_a_retention_that_is_too_short_is_told(tmp_path: Path, days: int, health: str) -> None:
    config = free_ports_config(tmp_path, Component.TEMPORAL).model_copy(update={"retention_days": days})
    async with Stack(config) as stack:
        check = await check_retention(stack.addresses)
    assert (check.name, check.health) == ("Retention", health)
    assert f"ended tasks are kept for {days} days" in check.finding
    if health == "warn":
        assert "sessions live for 30 days" in check.finding
        assert "OUTLAST_RETENTION_DAYS=30" in str(check.advice)


async def test_outputs_that_are_stored_for_longer_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_OUTPUT_TTL_SECONDS", str(40 * 86_400))
    async with Stack(free_ports_config(tmp_path, Component.TEMPORAL)) as stack:
        check = await check_retention(stack.addresses)
    assert "outputs are stored for 40 days" in check.finding
    assert "OUTLAST_RETENTION_DAYS=40" in str(check.advice)


async def test_a_server_that_is_not_embedded_is_not_judged() -> None:
    assert (await check_retention(StackAddresses())).health == "skip"
