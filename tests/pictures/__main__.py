"""`python -m tests.pictures`: draws the dashboards as pictures, each panel with what its own queries return.

Without `--prometheus` a stack of its own is put under mixed load, and a real Prometheus scrapes it: this makes
docs/pictures/outlast-*.svg. Half-way its worker is killed, so that it is seen what that looks like.
With `--prometheus URL` the pictures show what that Prometheus knows, for those who have no Grafana at hand.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import httpx

from outlast.deploy.grafana.boards import BOARDS
from outlast.worker.sweep_schedule import SWEEP_SCHEDULE_ID
from tests.pictures.drawing import as_svg
from tests.pictures.telling import told
from tests.soak.load import BUDGET, Load
from tests.soak.stack import SoakStack, running_soak_stack
from tests.support.calls.bulk import working_in_bulk
from tests.support.paths import ROOT
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.prometheus import Prometheus

FOLDER = ROOT / "docs" / "pictures"
_CLIENTS = 4
_WARM_UP_SECONDS = 45
"""What a rate looks back, so that the first moment of the pictures has one."""
_SWEEP_EVERY_SECONDS = 60
_POLICY = 'anonymous = "local"\n[defaults.limits]\nopen_streams = 100\n'


async def under_load(running: SoakStack, seconds: float) -> tuple[float, float]:
    """Put the stack under load; the moments between which pictures show it."""
    chaos = Chaos(running.stack)
    load = Load(chaos, seed=1)
    end = time.monotonic() + _WARM_UP_SECONDS + seconds
    begin = time.time() + _WARM_UP_SECONDS
    await asyncio.gather(
        *(load.client(number, end) for number in range(_CLIENTS)),
        _go_wrong(chaos, end),
        _work_in_bulk(chaos, end),
        _sweep(running, end),
        _lose_the_worker(running, _WARM_UP_SECONDS + seconds / 2),
        _lose_answers(running, _WARM_UP_SECONDS + seconds / 4),
    )
    await chaos.http.aclose()
    assert not load.outcome.wrong, load.outcome.wrong[:3]
    return begin, begin + seconds


async def _go_wrong(chaos: Chaos, end: float) -> None:
    """Calls that fail: of a run that there is not, of an Actor that ends badly; and searches, and a task of nobody."""
    failing = chaos.body(options=BUDGET)
    failing["arguments"]["input"]["failWith"] = {"exitCode": 1}
    while time.monotonic() < end:
        await chaos.start_call("get-actor-run", runId="Rn0tThereRn0tTher")
        await chaos.start_call("search-apify-docs", query="crawl")
        await chaos.ended((await chaos.post(failing)).json()["id"])
        await chaos.http.get("/v1/tasks/nobody")
        await asyncio.sleep(5)


async def _work_in_bulk(chaos: Chaos, end: float) -> None:
    """A batch that fails in part, twice, and a firing of a schedule; webhooks hear of all."""
    async with working_in_bulk(chaos.http) as bulk:
        while time.monotonic() < end:
            await bulk.work()
            await asyncio.sleep(10)


async def _sweep(running: SoakStack, end: float) -> None:
    """The schedule's sweep, more often than every 15 minutes."""
    temporal = await connect(running.stack.temporal_server.address)
    while time.monotonic() < end:
        await temporal.get_schedule_handle(SWEEP_SCHEDULE_ID).trigger()
        await asyncio.sleep(_SWEEP_EVERY_SECONDS)


async def _lose_the_worker(running: SoakStack, after_seconds: float) -> None:
    await asyncio.sleep(after_seconds)
    await running.stack.worker.restart()


async def _lose_answers(running: SoakStack, after_seconds: float) -> None:
    """Starts that the platform takes and whose answers are lost: their runs are adopted."""
    await asyncio.sleep(after_seconds)
    running.stack.sandbox.order_fault("drop_after", method="POST", path="/runs$", times=3)


def draw(prometheus: Prometheus, begin: float, end: float, folder: Path) -> None:
    """Write the picture of each dashboard."""
    for board in BOARDS:
        path = folder / f"{board.uid}.svg"
        path.write_text(as_svg(board, told(prometheus, board, begin, end)))
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


async def pictures(folder: Path, minutes: float, into: Path) -> None:
    """Start everything in a folder, put it under load, and draw."""
    watching, outlast = folder / "watching", folder / "outlast"
    for path in (watching, outlast):
        path.mkdir()
    policy = folder / "policy" / "policy.toml"
    policy.parent.mkdir()
    policy.write_text(_POLICY)
    settings = {
        "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true",
        "OUTLAST_AUDIT_FILE": str(folder / "audit.jsonl"),
        "OUTLAST_POLICY_FILE": str(policy),
        "OUTLAST_TOOL_MASKING": "true",
    }
    with running_soak_stack(outlast, watching, watched=True, **settings) as running:
        assert running.prometheus is not None
        await running.sandbox.ready()
        await running.stack.bring_up()
        running.stack.sandbox.limit(memoryMbytes=1_000_000, concurrentRuns=1_000)
        begin, end = await under_load(running, minutes * 60)
        draw(running.prometheus, begin, end, into)


def main() -> int:
    """Exit code 2 where Prometheus is needed and not installed."""
    options = _options()
    options.into.mkdir(parents=True, exist_ok=True)
    if options.prometheus:
        return _of_another(options.prometheus, options.minutes, options.into)
    if shutil.which("prometheus") is None:
        print("Pictures need Prometheus. On Debian and Ubuntu: apt-get install prometheus", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="outlast-pictures-"))
    try:
        asyncio.run(pictures(folder, options.minutes, options.into))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _of_another(url: str, minutes: float, into: Path) -> int:
    """Draw what a Prometheus knows that runs already; exit code 1 when it does not answer."""
    now = time.time()
    try:
        with httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", timeout=60) as client:
            draw(Prometheus(client), now - minutes * 60, now, into)
    except httpx.HTTPError as error:
        print(f"{url} does not answer as Prometheus does: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("--minutes", type=float, default=6, help="how long the pictures show (default: %(default)s)")
    parser.add_argument("--prometheus", metavar="URL", help="draw what this Prometheus knows, and start nothing")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER", help="where to (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
