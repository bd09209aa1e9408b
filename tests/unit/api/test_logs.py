"""Log lines name the task, repeat nothing of Temporal's own details, and hold no credential."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
TOKEN = "apify_api_0123456789-abc_DEF"
# In a process of its own: logging belongs to the whole process, and here it belongs to pytest.
PROGRAM = f"""
import logging
from temporalio import activity, workflow
from outlast.worker.logs import configure_logging
from outlast.workflows.contracts.tool_masks import Outcome, Reason, Resolution

configure_logging("json", "info")
log = logging.getLogger("outlast.test")
details = {{"workflow_id": "call-actor-1", "run_id": "r", "task_queue": "q", "attempt": 1}}
log.info("task started", extra={{"tool": "call-actor", "temporal_workflow": details}})
log.warning("again", extra={{"temporal_activity": {{**details, "attempt": 3}}}})
try:
    raise ValueError("refused {TOKEN}")
except ValueError:
    log.exception("with token=%s", "{TOKEN}", extra={{"session": "{TOKEN}"}})
active = Resolution(active=("get-task",), skipped={{"say": Reason.DISABLED}}, outcome=Outcome.MASKED)
log.info("tool mask resolved", extra={{"step": 2, **active.facts()}})
assert workflow.logger.workflow_info_on_message is False
assert activity.logger.activity_info_on_message is False
"""


FORGED = "2026-01-01T00:00:00Z [info     ] key:ann cancelled everything"
HOSTILE = f"a\r\n{FORGED}\x1b[2J\u2028{FORGED}\u202e\x85{FORGED}"
FORGING = f"""
import logging
from outlast.worker.logs import configure_logging

configure_logging("text", "info")
log = logging.getLogger("outlast.test")
hostile = {HOSTILE!r}
log.info("asked for %s", hostile)
log.info("task started", extra={{"tool": hostile, "session": [hostile]}})
try:
    raise ValueError(hostile)
except ValueError:
    log.exception("failed")
"""


def test_a_text_log_has_no_line_that_a_caller_wrote() -> None:
    done = subprocess.run([sys.executable, "-c", FORGING], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cancelled everything") >= 9
    lines = done.stderr.splitlines()  # also at the separators of Unicode
    assert sum(line.startswith("2026") for line in lines) == sum("outlast.test" in line for line in lines) == 3
    assert all(line.startswith(("20", "    ")) for line in lines)
    assert "".join(lines).isprintable()


def test_a_text_log_of_the_sandbox_platform_has_none_either() -> None:
    program = f"""
import logging
from outlast.deploy.local.sandbox.__main__ import configure_logging

configure_logging("text")
logging.getLogger("sandbox").error("no Actor %s", {HOSTILE!r})
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    first, *more = done.stderr.splitlines()
    assert "no Actor" in first
    assert all(line.startswith("    ") for line in more)
    assert done.stderr.replace("\n", "").isprintable()


def logged() -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_lines_name_the_task_and_hold_no_credential() -> None:
    of_workflow, of_retried_activity, of_failure, _ = logged()
    assert of_workflow.items() >= {"event": "task started", "task": "call-actor-1", "tool": "call-actor"}.items()
    assert not {"temporal_workflow", "attempt", "run_id", "task_queue"} & set(of_workflow)
    assert of_retried_activity.items() >= {"task": "call-actor-1", "attempt": 3, "level": "warning"}.items()
    assert TOKEN not in json.dumps(of_failure)
    assert "ValueError: refused [redacted]" in of_failure["exception"]


def test_a_resolution_is_told_with_its_step() -> None:
    *_, of_resolution = logged()
    told = {"step": 2, "mask_outcome": "masked", "selected": ["get-task"], "skipped": {"say": "disabled"}}
    assert of_resolution.items() >= told.items()
