"""Two versions of workers side by side, with open tasks: ramp, promote, roll back, drain, as docs/upgrades.md says."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from outlast.workflows.contracts.sessions import session_workflow_id
from tests.support.calls.questions import asks, taken
from tests.support.eventually import eventually
from tests.support.paths import ROOT
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.sandbox import running_sandbox

OLD, NEW = "1.0", "2.0-rc.1"
QUICK_DRAINAGE = (
    "--dynamic-config-value",
    'matching.wv.VersionDrainageStatusVisibilityGracePeriod="1s"',
    "--dynamic-config-value",
    'matching.wv.VersionDrainageStatusRefreshInterval="1s"',
)
PAGE = (ROOT / "docs" / "upgrades.md").read_text()


class Versions:
    """The commands of the page, on this stack."""

    def __init__(self, stack: ChaosStack) -> None:
        self._environment = {**os.environ, "TEMPORAL_ADDRESS": stack.temporal_server.address}

    async def run(self, *of: str) -> None:
        """Run the page's command that has these words, once the server knows the version."""

        async def succeeds() -> bool:
            done = await asyncio.to_thread(self._command, self._documented(of))
            assert done.returncode == 0, done.stderr
            return True

        await eventually(succeeds, interval_seconds=0.5)

    async def drainage(self, build_id: str) -> str:
        """What the page's last command says of a version."""
        command = [*self._documented(("describe-version",)), "--output", "json"]
        words = [build_id if word == OLD else word for word in command]
        done = await asyncio.to_thread(self._command, words)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["drainageInfo"]["drainageStatus"])

    def _documented(self, of: Sequence[str]) -> list[str]:
        lines: list[str] = re.findall(r"^ +temporal (worker deployment .*)$", PAGE, re.MULTILINE)
        (line,) = (line for line in lines if set(of) <= set(line.split()))
        names: dict[str, str] = {"NEW": NEW, "OLD": OLD}
        return [names.get(word, word) for word in line.split()]

    def _command(self, words: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        program = Path(sys.executable).with_name("temporal")
        return subprocess.run([program, *words], env=self._environment, capture_output=True, text=True, check=False)


@pytest.fixture
def versioned_stack(tmp_path: Path) -> Iterator[ChaosStack]:
    """Its worker is of the old version."""
    with (
        running_sandbox(tmp_path) as sandbox,
        ChaosStack(tmp_path, sandbox, temporal_options=QUICK_DRAINAGE, OUTLAST_BUILD_ID=OLD) as stack,
    ):
        yield stack


@pytest.fixture
async def chaos(versioned_stack: ChaosStack) -> AsyncIterator[Chaos]:
    await versioned_stack.bring_up()
    chaos = Chaos(versioned_stack)
    yield chaos
    await chaos.http.aclose()


async def question(chaos: Chaos, name: str) -> str:
    """A task that waits for its client. Its id follows from its name, and from the id who gets it while one ramps."""
    call: dict[str, Any] = {"tool": "pick_colour", "arguments": {"colours": ["red", "blue"]}, "session_id": "rehearsal"}
    return chaos.checked(await chaos.post(call, key=f"rehearsal-{name}")).json()["id"]


async def questions(chaos: Chaos, name: str, count: int) -> list[str]:
    """So many of them, when the last one waits."""
    gate = asyncio.Semaphore(8)

    async def one(number: int) -> str:
        async with gate:
            return await question(chaos, f"{name}-{number}")

    tasks = await asyncio.gather(*map(one, range(count)))
    for task in tasks:
        await asks(chaos.http, task)
    return tasks


async def versions_of(client: Client, workflow_id: str) -> list[str]:
    """The build ids that carried the workflow on, step by step, without repetitions."""
    seen: list[str] = []
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            build_id = event.workflow_task_completed_event_attributes.deployment_version.build_id
            if seen[-1:] != [build_id]:
                seen.append(build_id)
    return seen


@pytest.mark.parametrize("count", [10, pytest.param(340, marks=[pytest.mark.thorough, pytest.mark.timeout(1_800)])])
async def test_a_new_version_is_ramped_promoted_rolled_back_and_the_old_one_drained(chaos: Chaos, count: int) -> None:
    """Six times `count` tasks are open at the end; none is lost, and none moved."""
    stack = chaos.stack
    client, versions = await connect(stack.temporal_server.address), Versions(stack)
    newer = stack.new_worker("newer worker", OUTLAST_BUILD_ID=NEW)
    began: dict[str, set[str]] = {}
    try:
        await versions.run("set-current-version", "OLD")
        run = await chaos.start(seconds=20)
        before = await questions(chaos, "before", count)
        await newer.ready()
        await versions.run("set-ramping-version", "--percentage")
        ramped = await questions(chaos, "ramped", 3 * count)
        await versions.run("set-current-version", "NEW")
        promoted = await questions(chaos, "promoted", count)
        await versions.run("set-current-version", "OLD")
        rolled_back = await questions(chaos, "rolled back", count)
        await versions.run("set-current-version", "NEW")
        for name, tasks in {"before": [run, *before], "ramped": ramped, "new": promoted, "back": rolled_back}.items():
            began[name] = {version for task in tasks for version in await versions_of(client, task)}
        assert began == {"before": {OLD}, "ramped": {OLD, NEW}, "new": {NEW}, "back": {OLD}}
        assert await versions.drainage(OLD) == "draining"

        answered = [*before, *ramped, *promoted, *rolled_back]
        for task in answered:
            await taken(chaos.http, await chaos.task(task), {"colour": "red"})
        for task in answered:
            assert (await chaos.ended(task))["status"] == "completed"
            assert len(await versions_of(client, task)) == 1, "a task was moved"
        await chaos.expect_right_answer(run)
        assert await versions_of(client, run) == [OLD]
        assert (await versions_of(client, session_workflow_id("local", "rehearsal")))[-1] == NEW

        async def is_drained() -> bool:
            return await versions.drainage(OLD) == "drained"

        await eventually(is_drained, interval_seconds=0.5)
        await stack.worker.terminate()
        after = await chaos.start(seconds=0)
        await chaos.expect_right_answer(after)
        assert await versions_of(client, after) == [NEW]
        chaos.expect_one_run_per_task(tasks=2)
    finally:
        newer.kill()
