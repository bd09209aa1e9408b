"""MCP's own conformance suite, in both protocol revisions: every requirement of a server, and the tasks extension."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.processes.installed import node, npm_package
from tests.support.stacks.service import Service

PACKAGE = ("@modelcontextprotocol/conformance", "0.2.0-alpha.12")
EXPECTED_FAILURES = Path(__file__).with_name("expected_failures.yml")
_SCENARIO = re.compile(r"^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
_ENTRY = re.compile(r"^  - ([\w-]+) # \S.*$", re.MULTILINE)
TASK_SCENARIOS = frozenset(
    f"tasks-{name}"
    for name in (
        "lifecycle capability-negotiation wire-fields request-state-removal mrtr-input request-headers "
        "dispatch-and-envelope status-notifications required-task-error mrtr-composition"
    ).split()
)


def expected_failures(revision: str) -> set[str]:
    """The scenarios under a revision's heading; each entry has its reason on its line."""
    _, _, rest = EXPECTED_FAILURES.read_text().partition(f"\n{revision}:\n")
    section = re.split(r"^\S", rest, maxsplit=1, flags=re.MULTILINE)[0]
    found = set(_ENTRY.findall(section))
    assert len(found) == section.count("  - "), "every expected failure needs its reason on its line"
    return found


@pytest.fixture(scope="module")
def suite() -> Path:
    return npm_package(*PACKAGE) / "dist" / "index.js"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_requirement_of_the_revision_is_met(service: Service, suite: Path, tmp_path: Path, revision: str) -> None:
    url = f"{service.api_url}/mcp"
    command = [str(node()), str(suite), "server", "--url", url, "--requirements", revision]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=240, check=False)
    passed = {scenario: mark == "✓" for mark, scenario, _, _ in _SCENARIO.findall(done.stdout)}
    assert len(passed) >= 30, done.stdout[-2000:] + done.stderr[-2000:]
    failed = {scenario for scenario, well in passed.items() if not well}
    assert failed == expected_failures(revision), done.stdout[-8000:]
    if revision == "2026-07-28":
        assert passed.keys() >= TASK_SCENARIOS
