"""Recorded calls of BFCL and AgentDojo, made through Outlast while all is killed: each happens once, in order."""

from pathlib import Path

import pytest

from tests.support.traces.replay import ALL, SAMPLE, TRACES, Effort, Replay


@pytest.fixture(scope="module", autouse=True)
def recorded() -> None:
    """The packages with the calls."""
    problem = TRACES.install()
    if problem is not None:
        pytest.skip(f"pip cannot install the recorded calls: {problem}")


@pytest.mark.parametrize(
    "effort",
    [
        pytest.param(SAMPLE, id="sample"),
        pytest.param(ALL, id="all", marks=[pytest.mark.thorough, pytest.mark.timeout(4 * 3600)]),
    ],
)
async def test_recorded_calls_end_as_if_nothing_was_killed(tmp_path: Path, effort: Effort) -> None:
    report = await Replay(tmp_path, effort).run()
    assert report.wrong == dict.fromkeys(report.wrong, 0), report
    assert min(report.kills.values()) >= 1, report
    assert set(report.kills) == {"worker", "api", "temporal", "MCP server process"}
