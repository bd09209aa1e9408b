"""Task queues: which work is served by which slots of a worker."""

TOOLS_TASK_QUEUE = "outlast-tools"
"""Workflows and their short activities."""
RUNS_TASK_QUEUE = "outlast-runs"
"""Activities that only wait for a run: thousands of cheap slots."""
OUTPUTS_TASK_QUEUE = "outlast-outputs"
"""Storing and restoring outputs: as many slots as the machine has processors, since compression keeps one busy."""
