"""How long the units of tests take: recorded, and compared with every whole run, so that the record stays true.

A whole run with `--record-durations` writes what it has measured into `durations.json`.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

DURATIONS_FILE = Path(__file__).with_suffix(".json")
_RECORDED_FROM_SECONDS = 15
_WORTH_SAYING_SECONDS = 60
_FACTOR = 3


def recorded_seconds() -> dict[str, float]:
    """The seconds that each long unit took when it was last recorded."""
    return json.loads(DURATIONS_FILE.read_text())


def expected_seconds(units: Mapping[str, str]) -> dict[str, float]:
    """How long each unit is expected to take: as recorded, or else guessed by the number of its tests."""
    recorded = recorded_seconds()
    return {unit: recorded.get(unit, _guess(tests)) for unit, tests in Counter(units.values()).items()}


def _guess(tests: int) -> float:
    return 10.0 + tests if tests > 1 else 0.0


def differences(measured: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """How a whole run differs from the record by so much that long units may begin too late.

    A machine that is slow throughout is no difference: each unit is compared with all of them.
    """
    known = [unit for unit in recorded if unit in measured]
    speed = (sum(measured[unit] for unit in known) or 1) / (sum(recorded[unit] for unit in known) or 1)
    gone = [f"{unit} no longer exists" for unit in recorded if unit not in measured]
    changed = [
        f"{unit} took {seconds:.0f} s instead of {recorded.get(unit, 0) * speed:.0f} s"
        for unit, seconds in measured.items()
        if seconds > _WORTH_SAYING_SECONDS and seconds > _FACTOR * speed * recorded.get(unit, 0)
    ]
    return gone + changed


class DurationLog:
    """The plugin that measures the units of a run."""

    def __init__(self, units: Mapping[str, str], *, record: bool) -> None:
        """`units` has each test's unit by the time that the first test ends."""
        self._units = units
        self._record = record
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[self._units.get(report.nodeid, report.nodeid)] += report.duration

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not ended or not self._is_whole_run(config):
            return
        if self._record:
            self._write()
        elif found := differences(self._seconds, recorded_seconds()):
            terminalreporter.section("the record of durations is out of date: make test ARGS=--record-durations")
            terminalreporter.write_line("\n".join(found))

    @staticmethod
    def _is_whole_run(config: pytest.Config) -> bool:
        chosen = (
            config.option.keyword
            or getattr(config.option, "lf", False)
            or config.option.maxfail
            or config.option.collectonly
        )
        return not chosen and config.args == config.getini("testpaths") and "not thorough" in config.option.markexpr

    def _write(self) -> None:
        measured = {unit: round(took) for unit, took in self._seconds.items() if took >= _RECORDED_FROM_SECONDS}
        longest = sorted(measured.items(), key=lambda entry: -entry[1])
        DURATIONS_FILE.write_text(json.dumps(dict(longest), indent=2) + "\n")
