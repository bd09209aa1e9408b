"""A gigabyte from `outlast/big-table`: stored with flat memory, about as fast as plain zstd, and sliced unread."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import httpx
import zstandard

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.output_format import ZSTD_LEVEL
from outlast.activities.outputs.writer import OutputWriter
from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system

MEMORY_GROWTH_AT_MOST = Target("at most", 64)
STORE_SPEED_AT_LEAST = Target("at least", 0.85)
QUICK_CALL_AT_MOST = Target("at most", 200)
SLICE_AT_MOST = Target("at most", 1)

_BYTES = 1_000_000_000
_SLICES = 15
_SPEED_BYTES = 256_000_000
"""Of the rows this much is written again, in turns with plain zstd, to compare the two."""
_SPEED_ROUNDS = 3
_PIECE = 1024 * 1024
_QUICK_CALLS_ALONE = 100
_PAUSE_SECONDS = 0.05
"""Between two quick calls: a person's agent, not a flood."""
_QUICK_ROWS = [{"url": f"https://example.com/{number}", "text": "x" * 200} for number in range(4)]


async def measure_large_output() -> Finding:
    """Run the Actor, store its gigabyte, read it whole and in slices; then write its rows beside plain zstd."""
    async with running_system() as system:
        dataset_id = await system.new_dataset(_QUICK_ROWS)
        alone = [await _quick_call(system, dataset_id) for _ in range(_QUICK_CALLS_ALONE)]
        base = system.memory_bytes(Component.WORKER)
        began = time.perf_counter()
        report, beside = await _stored(system, dataset_id)
        seconds = time.perf_counter() - began
        locator, count = report["locator"], report["output"]["count"]
        async with httpx.AsyncClient(base_url=str(system.stack.addresses.api_url), trust_env=False) as http:
            whole = await _seconds(lambda: _read(http, f"/v1/outputs/{locator}"))
            slices = [
                await _seconds(lambda number=number: _read(http, _slice_of(locator, count, number)))
                for number in range(_SLICES)
            ]
            restored = await _restored(system, locator, count // 2)
            rows = await _first_bytes(http, locator)
        growth = (_peak_memory_bytes(system) - base) / 1e6
    ours, plain = await _speeds(rows)
    ratio = statistics.median(mine / other for mine, other in zip(ours, plain, strict=True))
    assert restored == 100, restored
    return Finding(
        "large-output",
        (
            Figure("content stored", report["output"]["sizeBytes"] / 1e6, "MB"),
            Figure("from the call to its answer, run included", seconds, "s"),
            Figure("growth of the worker's peak memory", growth, "MB", MEMORY_GROWTH_AT_MOST),
            Figure("a quick call alone, median", statistics.median(alone), "ms"),
            Figure("a quick call alone, 95th percentile", _percentile95(alone), "ms"),
            Figure("a quick call while the rows are stored, median", statistics.median(beside), "ms"),
            Figure("the same, 95th percentile", _percentile95(beside), "ms", QUICK_CALL_AT_MOST),
            Figure("store, median", statistics.median(ours), "MB/s"),
            Figure("plain zstd, same level, median", statistics.median(plain), "MB/s"),
            Figure(
                "store against plain zstd, median of neighbouring rounds", ratio, "", STORE_SPEED_AT_LEAST, "higher"
            ),
            Figure("reading it whole through REST", whole, "s"),
            Figure("a slice of 100 rows, median", statistics.median(slices) * 1000, "ms"),
            Figure("slice against whole", statistics.median(slices) / whole * 100, "%", SLICE_AT_MOST, "lower"),
        ),
        {"bytes": _BYTES, "rows": count, "slices": _SLICES, "level": ZSTD_LEVEL, "speed_bytes": _SPEED_BYTES},
    )


async def _stored(system: System, dataset_id: str) -> tuple[dict, list[float]]:
    """The report on the stored gigabyte, and how long each quick call took while its rows were stored."""
    arguments = {"actor": "outlast/big-table", "input": {"targetBytes": _BYTES}}
    async with system.caller() as caller:
        status, task = await caller.post("/v1/tasks", {"tool": "call-actor", "arguments": arguments})
        assert status == 201, task
        storing = asyncio.create_task(_report(system, task["id"]))
        while not storing.done() and not await _run_has_ended(caller, task["id"]):
            await asyncio.sleep(_PAUSE_SECONDS)
        beside: list[float] = []
        while not storing.done():
            beside.append(await _quick_call(system, dataset_id))
            await asyncio.sleep(_PAUSE_SECONDS)
    return await storing, beside


async def _report(system: System, task_id: str) -> dict:
    async with system.caller() as caller:
        while True:
            status, answer = await caller.get(f"/v1/tasks/{task_id}/result?wait=60")
            if status == 200:
                assert answer["task"]["status"] == "completed", answer
                return answer["result"]["structured"]


async def _run_has_ended(caller: RestCaller, task_id: str) -> bool:
    """Whether the platform's own record says so: the task tells it only when its rows are stored."""
    _, task = await caller.get(f"/v1/tasks/{task_id}")
    run = task.get("run")
    if run is None:
        return False
    arguments = {"runId": run["run_id"]}
    _, answer = await caller.post("/v1/tools/get-actor-run/call", {"arguments": arguments})
    return answer["result"]["structured"]["status"] == "SUCCEEDED"


async def _quick_call(system: System, dataset_id: str) -> float:
    """Milliseconds of one read of 1 KB, over a connection of its own."""
    began = time.perf_counter()
    async with system.caller() as caller:
        body = {"arguments": {"datasetId": dataset_id}}
        status, answer = await caller.post("/v1/tools/get-dataset-items/call", body)
    assert status == 200, answer
    return (time.perf_counter() - began) * 1_000


def _percentile95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


async def _restored(system: System, locator: str, offset: int) -> int:
    """How many rows the restore tool gives from the middle."""
    arguments = {"locator": locator, "offset": offset, "limit": 100, "fields": "id"}
    async with system.caller() as caller:
        status, answer = await caller.post("/v1/tools/restore-tool-output/call", {"arguments": arguments})
    assert status == 200, answer
    return len(answer["result"]["structured"]["items"])


def _slice_of(locator: str, count: int, number: int) -> str:
    return f"/v1/outputs/{locator}?limit=100&offset={count * number // _SLICES}"


async def _read(http: httpx.AsyncClient, path: str) -> int:
    size = 0
    async with http.stream("GET", path, timeout=300) as response:
        response.raise_for_status()
        async for piece in response.aiter_raw():
            size += len(piece)
    return size


async def _first_bytes(http: httpx.AsyncClient, locator: str) -> list[bytes]:
    """The rows that are written again, in pieces of whole rows as the platform's pages give them."""
    headers = {"Range": f"bytes=0-{_SPEED_BYTES - 1}"}
    response = (await http.get(f"/v1/outputs/{locator}", headers=headers, timeout=300)).raise_for_status()
    content = response.content[: response.content.rindex(b"\n") + 1]
    pieces: list[bytes] = []
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _PIECE)
        end = len(content) if end < 0 else end + 1
        pieces.append(content[start:end])
        start = end
    return pieces


async def _speeds(rows: list[bytes]) -> tuple[list[float], list[float]]:
    """MB/s of the store and of plain zstd, in neighbouring rounds."""
    size = sum(map(len, rows)) / 1e6
    ours: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        for number in range(_SPEED_ROUNDS):
            ours.append(size / await _seconds(lambda number=number: _write(folder, rows, number)))
            plain.append(size / await _seconds(lambda number=number: _compress(Path(folder), rows, number)))
    return ours, plain


async def _write(folder: str, rows: list[bytes], number: int) -> None:
    scope = OutputScope(caller_id="bench", tool_call_id=f"bench-{number}", task_id=f"bench-{number}")
    async with OutputWriter(OutputObjects.open(folder), scope, what="rows", kind="rows") as writer:
        for piece in rows:
            await writer.write(piece)
        await writer.finish(content_type="application/x-ndjson", ttl=timedelta(hours=1))


async def _compress(folder: Path, rows: list[bytes], number: int) -> None:
    """What the store is held against: one stream, one thread, into a file."""

    def compress() -> None:
        compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
        with (folder / f"plain-{number}.zst").open("wb") as file, compressor.stream_writer(file) as target:
            for piece in rows:
                target.write(piece)

    await asyncio.to_thread(compress)


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _peak_memory_bytes(system: System) -> int:
    """The worker's largest resident memory since its beginning, as the kernel keeps it (`VmHWM`)."""
    pid = system.stack.pid(Component.WORKER)
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
