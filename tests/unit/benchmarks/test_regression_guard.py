"""`make bench ARGS="--check"`: ratios are held against accepted ones, and what is worse, or missing, fails."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import guard
from tests.benchmarks.report import Figure, Finding, Target

QUICK, SLOW_CALLS = "quick", "slow-calls"


def finding(
    benchmark: str = QUICK, *, lower: float | None = None, higher: float | None = None, time: float = 40
) -> Finding:
    """`lower` and `higher` are ratios, named by what is better; `time` is in milliseconds, which are never held."""
    falls = () if lower is None else (Figure("lower", lower, better="lower"),)
    rises = () if higher is None else (Figure("higher", higher, better="higher"),)
    return Finding(benchmark, (*falls, *rises, Figure("time", time, "ms")))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command with these findings instead of benchmarks, and an accepted file of its own; its exit code."""
    monkeypatch.setattr(guard, "ACCEPTED", tmp_path / "accepted.json")

    def ran(*arguments: str, findings: list[Finding]) -> int:
        async def found(found: Finding) -> Finding:
            return found

        benchmarks = {each.benchmark: (lambda each=each: found(each)) for each in findings}
        monkeypatch.setattr(command, "BENCHMARKS", benchmarks)
        monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        return command.main()

    return ran


@pytest.mark.parametrize(
    ("now", "told", "code"),
    [
        ({"lower": 1.05, "higher": 1.95, "time": 4_000}, [], 0),
        ({"lower": 0.5, "higher": 4}, ["better", "better"], 0),
        ({"lower": 1.2, "higher": 2}, ["WORSE"], 1),
        ({"lower": 1, "higher": 1.7}, ["WORSE"], 1),
        ({"lower": 1}, ["NOT MEASURED"], 1),
    ],
    ids=["as accepted, within the tolerance", "better", "a ratio rose", "a ratio fell", "a figure is missing"],
)
def test_a_worse_ratio_fails_and_a_better_one_passes(
    run: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    now: dict[str, Any],
    told: list[str],
    code: int,
) -> None:
    assert run("--accept", findings=[finding(lower=1, higher=2)]) == 0
    capsys.readouterr()
    assert run("--check", findings=[finding(**now)]) == code
    shown = capsys.readouterr().out.split("Against the accepted figures")[1]
    words = ("better", "WORSE", "NOT MEASURED", "NOT ACCEPTED")
    assert [word for line in shown.splitlines() for word in words if word in line] == told
    assert "time" not in shown


def test_a_benchmark_that_breaks_is_missed(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    run("--accept", findings=[finding(lower=1)])
    broken = Finding(QUICK, (Figure("ran to its end", 0, "", Target("exactly", 1)),))
    assert run("--check", findings=[broken]) == 1
    assert "NOT MEASURED" in capsys.readouterr().out


def test_a_ratio_that_nobody_accepted_is_told(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    run("--accept", findings=[finding(lower=1)])
    assert run("--check", findings=[finding(lower=1, higher=2)]) == 1
    shown = capsys.readouterr().out
    assert "NOT ACCEPTED YET" in shown
    assert "--accept" in shown


def test_only_the_named_benchmarks_are_held_and_accepted(run: Callable[..., int]) -> None:
    run("--accept", findings=[finding(lower=1), finding(SLOW_CALLS, lower=1)])
    worse = [finding(lower=1), finding(SLOW_CALLS, lower=9)]
    assert run("--check", findings=worse) == 1
    assert run("--check", QUICK, findings=worse) == 0
    assert run("--accept", QUICK, findings=[finding(lower=3), finding(SLOW_CALLS, lower=9)]) == 0
    values = {name: figures["lower"]["value"] for name, figures in json.loads(guard.ACCEPTED.read_text()).items()}
    assert values == {QUICK: 3, SLOW_CALLS: 1}


def test_what_is_accepted_anew_keeps_its_tolerance(run: Callable[..., int]) -> None:
    run("--accept", findings=[finding(lower=1)])
    written = json.loads(guard.ACCEPTED.read_text())
    written[QUICK]["lower"]["tolerance"] = 0.5
    guard.ACCEPTED.write_text(json.dumps(written))
    run("--accept", findings=[finding(lower=2)])
    assert run("--check", findings=[finding(lower=2.9)]) == 0
    assert run("--check", findings=[finding(lower=3.1)]) == 1


def test_a_missed_time_fails_no_check_but_a_wrong_count_does(run: Callable[..., int]) -> None:
    slow = Figure("p99", 3_000, "ms", Target("at most", 2_000))
    lost = Figure("calls answered", 9, "calls", Target("exactly", 10))
    assert run("--check", findings=[Finding(QUICK, (slow,))]) == 0
    assert run(findings=[Finding(QUICK, (slow,))]) == 1
    assert run("--check", findings=[Finding(QUICK, (lost,))]) == 1


def test_the_committed_file_names_benchmarks_that_there_are() -> None:
    accepted = guard.read_accepted()
    assert accepted
    assert set(accepted) <= set(command.BENCHMARKS)
