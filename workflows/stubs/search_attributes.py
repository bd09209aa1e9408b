"""Changing the search attributes of the workflow that runs."""

from datetime import datetime

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate


def upsert_search_attributes(*updates: SearchAttributeUpdate[str] | SearchAttributeUpdate[datetime]) -> None:
    """Change search attributes of the current workflow."""
    workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
