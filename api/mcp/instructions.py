"""What the server tells a model about itself: common text, the mode's own, and what is missing on this connection."""

from collections.abc import Sequence

from workflows.tools.registry import MODES

COMMON = """
Outlast runs tools as durable tasks, most of all Apify Actors: serverless programs that crawl, search and process.
- A call that takes long is not lost when it outlasts your patience or your connection: it goes on as a task. Collect it
  with get-task (waitSecs), find it with list-tasks, stop it and what it costs with cancel-task.
- A large output is stored: the answer has `compressed: true`, a `locator`, and a summary with the first rows. Often
  they are enough. When not, call restore-tool-output with the locator for the part that you need: a filter, few fields,
  a range. Do not restore an output to repeat it or to pass it on: its locator is enough to refer to it.
- An Actor's rows are in a dataset. Of older runs get them with get-actor-output, few fields at a time.
- When a run fails, read the end of its log with get-actor-log before you call again.
""".strip()


def server_instructions(mode: str, missing_actors: Sequence[str] = ()) -> str:
    """The instructions of a connection in `mode`. `missing_actors` were asked for and cannot be loaded."""
    parts = [COMMON, MODES[mode].instructions.strip()]
    if missing_actors:
        parts.append(f"- These Actors were asked for and cannot be loaded as tools now: {', '.join(missing_actors)}.")
    return "\n".join(part for part in parts if part)
