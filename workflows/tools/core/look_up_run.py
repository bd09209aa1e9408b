"""`get-actor-run`: how far a run is."""

from pydantic import Field

from workflows.tools.core.answers import MAX_ANSWER_BYTES
from workflows.tools.core.run_report import RunReport
from workflows.tools.tool import Arguments, Category, Handler, ToolAnnotations, ToolBuilder, tool


class RunArguments(Arguments):
    """Names a run."""

    run_id: str = Field(alias="runId", min_length=1, description="Id of the Actor run.")


def get_actor_run_definition(handler: Handler, description: str) -> ToolBuilder:
    """`get-actor-run`, as far as it is the same in every mode."""
    return (
        tool("get-actor-run")
        .category(Category.RUNS)
        .describe(description)
        .annotate(ToolAnnotations(title="Get Actor run", read_only=True, idempotent=True))
        .args(RunArguments)
        .output(RunReport)
        .server(handler)
        .output_threshold(MAX_ANSWER_BYTES)
        .reports_output()
    )
