"""Task queues: which slots of a worker serve which work."""

TOOLS_TASK_QUEUE = "outlast-tools"
"""Workflows and their short activities."""
RUNS_TASK_QUEUE = "outlast-runs"
"""Activities that only wait for a run. They have thousands of cheap slots."""
OUTPUTS_TASK_QUEUE = "outlast-outputs"
"""Storing and restoring outputs. There is one slot per processor, because compression keeps a processor busy."""
FUNCTIONS_TASK_QUEUE = "outlast-functions"
"""Plain functions of tools, also of other packages. They have their own slots, so that they do not delay Outlast."""
MODELS_TASK_QUEUE = "outlast-models"
"""Calls of models: long streams with their own slots, so that they never wait for tools, nor tools for them."""
SERVERS_TASK_QUEUE = "outlast-servers"
"""Calls of MCP servers. Workers with a file of servers poll it, and each a queue of its own for its sessions."""

SCHEDULES_TASK_QUEUE = "outlast-schedules"
"""Starts by schedules. The API serves it, and checks a firing like a request."""

QUEUES = {
    "tools": TOOLS_TASK_QUEUE,
    "runs": RUNS_TASK_QUEUE,
    "outputs": OUTPUTS_TASK_QUEUE,
    "functions": FUNCTIONS_TASK_QUEUE,
    "models": MODELS_TASK_QUEUE,
}
"""The queues of workers by their short names, as `OUTLAST_QUEUES` names them."""
