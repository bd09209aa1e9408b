"""Changing the search attributes of the workflow that runs."""

import asyncio
from datetime import datetime

from temporalio import workflow
from temporalio.common import SearchAttributeUpdate

_Change = SearchAttributeUpdate[str] | SearchAttributeUpdate[datetime]


def upsert_search_attributes(*updates: _Change) -> None:
    """Change search attributes of the current workflow."""
    workflow.upsert_search_attributes(updates)  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open


class TaskAttributes:
    """Changes of a task's search attributes. Those of one step are one event of its history, and one billed action."""

    def __init__(self) -> None:
        """Nothing is to be changed yet."""
        self._changes: dict[str, _Change] = {}

    def change(self, *updates: _Change) -> None:
        """Make these changes when the workflow next waits for something, or with `write`."""
        if not self._changes:
            asyncio.get_running_loop().call_soon(self.write)
        self._changes.update({update.key.name: update for update in updates})

    def write(self) -> None:
        """Make the changes now: a workflow that ends waits for nothing any more."""
        if self._changes:
            upsert_search_attributes(*self._changes.values())
            self._changes.clear()
