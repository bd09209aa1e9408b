"""Hours that pass for the store while a batch stands still: what has expired by then is swept."""

import os
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.outputs.contracts import SweepInput
from outlast.activities.outputs.manifest import manifest_text, parse_manifest
from outlast.activities.outputs.sweep import OutputSweepActivities
from outlast.activities.outputs.temporal_tasks import TemporalTasks


async def hours_pass(outputs: Path, client: Client, hours: float) -> None:
    """Make everything in the folder older by so much, as it is after that time, and sweep it as a worker would."""
    _age(outputs, timedelta(hours=hours))
    await _sweep(OutputObjects.open(str(outputs)), client)


def _age(outputs: Path, passed: timedelta) -> None:
    for path in (outputs / "manifests").rglob("*.json"):
        manifest = parse_manifest(path.read_bytes())
        times = {"created_at": manifest.created_at - passed, "expires_at": manifest.expires_at - passed}
        path.write_bytes(manifest_text(manifest.model_copy(update=times)))
    for path in outputs.rglob("*"):
        before = path.stat().st_mtime - passed.total_seconds()
        os.utime(path, (before, before))


async def _sweep(objects: OutputObjects, client: Client) -> None:
    activities = OutputSweepActivities(objects, TemporalTasks(client), grace=timedelta(hours=1))
    report = await ActivityEnvironment().run(activities.sweep_page, SweepInput())
    while report.cursor is not None:
        report = await ActivityEnvironment().run(activities.sweep_page, SweepInput(cursor=report.cursor))
