"""Search attributes by which operators and task lists find a task. All are of type Keyword."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

TOOL = SearchAttributeKey.for_keyword("OutlastTool")
ACTOR = SearchAttributeKey.for_keyword("OutlastActor")
RUN_ID = SearchAttributeKey.for_keyword("OutlastRunId")
EXECUTOR = SearchAttributeKey.for_keyword("OutlastExecutor")
TASK_STATUS = SearchAttributeKey.for_keyword("OutlastTaskStatus")
CALLER = SearchAttributeKey.for_keyword("OutlastCaller")
SESSION = SearchAttributeKey.for_keyword("OutlastSession")

ALL: Sequence[SearchAttributeKey[str]] = (TOOL, ACTOR, RUN_ID, EXECUTOR, TASK_STATUS, CALLER, SESSION)


def upsert(*updates: SearchAttributeUpdate[str]) -> None:
    """Change search attributes of the current workflow."""
    workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
