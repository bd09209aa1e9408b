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
from outlast.workflows.runtime.masks import Outcome, Reason, Resolution

configure_logging("json", "info")
log = logging.getLogger("outlast.test")
details = {{"workflow_id": "call-actor-1", "run_id": "r", "task_queue": "q", "attempt": 1}}
log.info("tool started", extra={{"tool": "call-actor", "temporal_workflow": details}})
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


def logged() -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_lines_name_the_task_and_hold_no_credential() -> None:
    of_workflow, of_retried_activity, of_failure, _ = logged()
    assert of_workflow.items() >= {"event": "tool started", "task": "call-actor-1", "tool": "call-actor"}.items()
    assert not {"temporal_workflow", "attempt", "run_id", "task_queue"} & set(of_workflow)
    assert of_retried_activity.items() >= {"task": "call-actor-1", "attempt": 3, "level": "warning"}.items()
    assert TOKEN not in json.dumps(of_failure)
    assert "ValueError: refused [redacted]" in of_failure["exception"]


def test_a_resolution_is_told_with_its_step() -> None:
    *_, of_resolution = logged()
    told = {"step": 2, "mask_outcome": "masked", "selected": ["get-task"], "skipped": {"say": "disabled"}}
    assert of_resolution.items() >= told.items()
