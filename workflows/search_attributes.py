"""Search attributes by which operators and task lists find a task, and the sweep finds what a task refers to."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from activities.output_store.references import REFERENCES_ATTRIBUTE

TOOL = SearchAttributeKey.for_keyword("OutlastTool")
ACTOR = SearchAttributeKey.for_keyword("OutlastActor")
RUN_ID = SearchAttributeKey.for_keyword("OutlastRunId")
EXECUTOR = SearchAttributeKey.for_keyword("OutlastExecutor")
TASK_STATUS = SearchAttributeKey.for_keyword("OutlastTaskStatus")
CALLER = SearchAttributeKey.for_keyword("OutlastCaller")
SESSION = SearchAttributeKey.for_keyword("OutlastSession")

LOCATORS = SearchAttributeKey.for_keyword_list(REFERENCES_ATTRIBUTE)
"""Short names of the stored outputs that stand in a call's arguments, see `activities.output_store.references`."""

ALL: Sequence[SearchAttributeKey[str]] = (TOOL, ACTOR, RUN_ID, EXECUTOR, TASK_STATUS, CALLER, SESSION)
"""Those of type Keyword."""
KEYWORD_LISTS: Sequence[SearchAttributeKey[Sequence[str]]] = (LOCATORS,)


def upsert(*updates: SearchAttributeUpdate[str]) -> None:
    """Change search attributes of the current workflow."""
    workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
