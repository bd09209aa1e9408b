"""The executor of this mode: the call ends with its run, and is answered with what the run's storages hold."""

from typing import Literal

from outlast.activities.runs.contracts import RunSpec
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.runtime.executors import describe_run
from outlast.workflows.tools.apify.runs.reading import answer_about
from outlast.workflows.tools.core.run_report import until_meta


class RunResponseExecutor:
    """Returns after the run has ended. A front door that does not wait so long answers with `get-actor-run`."""

    kind: Literal["sync", "async"] = "sync"

    async def execute_actor_tool(self, ctx: ToolContext, params: RunSpec) -> ToolResult:
        """Start the run, follow it to its end, and describe it. A run that failed is no failed call."""
        started = await ctx.runs.start(params)
        ctx.say(describe_run(started))
        ended = await ctx.runs.finish(started, params.budget)
        ctx.say(describe_run(ended))
        run = await ctx.platform.run(ended.run_id)
        named = params.actor if "/" in params.actor else None
        answer = await answer_about(ctx, run, actor_name=named, patient=True)
        return answer.model_copy(update={"meta": {**answer.meta, **until_meta(ended)}})
