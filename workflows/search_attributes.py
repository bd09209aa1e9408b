"""Search attributes by which operators and task lists find a task. All are of type Keyword."""

from collections.abc import Sequence

from temporalio.common import SearchAttributeKey

TOOL = SearchAttributeKey.for_keyword("OutlastTool")
ACTOR = SearchAttributeKey.for_keyword("OutlastActor")
RUN_ID = SearchAttributeKey.for_keyword("OutlastRunId")
EXECUTOR = SearchAttributeKey.for_keyword("OutlastExecutor")
TASK_STATUS = SearchAttributeKey.for_keyword("OutlastTaskStatus")
CALLER = SearchAttributeKey.for_keyword("OutlastCaller")
SESSION = SearchAttributeKey.for_keyword("OutlastSession")

ALL: Sequence[SearchAttributeKey[str]] = (TOOL, ACTOR, RUN_ID, EXECUTOR, TASK_STATUS, CALLER, SESSION)
