"""Keys of a task's memo. The memo is what a task says of itself while no worker is alive; each change of it is an
event of the task's history, and so of the task's event stream."""

SUMMARY = "outlast_summary"
"""`TaskSummary`, set at the start."""
RUN_STARTED = "outlast_run_started"
"""`RunState`, when the platform has accepted the run."""
TASK_COMPLETED = "outlast_task_completed"
"""`TaskCompleted`, when the handler has returned."""
RESULT = "outlast_result"
"""`ToolResult` of a handler that returned before its run had ended."""
RUN_FINISHED = "outlast_run_finished"
"""`RunState` of a run that ended after the handler had returned."""
