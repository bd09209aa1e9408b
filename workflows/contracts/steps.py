"""The journal of a tool's function: what its steps returned and how its waits ended. The task's workflow keeps it.

A function runs in an activity. Each step's result is recorded by a signal before the function continues. A later
attempt reads the journal with a query, and runs the function again with the recorded results.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from outlast.activities.contracts import OPEN, Contract, JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult

STEP_SIGNAL = "tool_step"
JOURNAL_QUERY = "tool_journal"
PAGE_BYTES = 512 * 1024
"""Size of an answer to the query, without its last entry."""

WaitKind = Literal["sleep", "ask", "approve", "call"]


class StepFailure(Contract):
    """An exception that a step raised, and that the function caught."""

    module: str
    name: str
    message: str


class StepEntry(Contract):
    """One entry of the journal."""

    position: str = Field(description="Place of the step in the function: `2`, or `1.2` in a concurrent branch.")
    name: str = Field(description="Name of the step's function, or the kind of the wait.")
    digest: str = Field(description="Keyed SHA-256 of the arguments (plain before 2026-11-29), in hexadecimal digits.")
    state: Annotated[Literal["started", "done", "failed"], OPEN] = "done"
    value: JsonValue = None
    failure: StepFailure | None = None


class Wait(Contract):
    """A wait of a function. The activity ends; the workflow waits, records the entry and runs it again."""

    position: str
    kind: Annotated[WaitKind, OPEN]
    digest: str
    seconds: float | None = Field(default=None, description="Duration of a sleep; longest wait for an answer.")
    message: str = Field(default="", description="The question; for a call, where the program makes it.")
    answer_schema: JsonObject = Field(default_factory=dict, description="JSON Schema of the answer to a question.")
    details: JsonObject = Field(default_factory=dict, description="Details of an approval; arguments of a call.")
    tool: str | None = Field(default=None, description="Name of the tool to call.")
    sealed: tuple[str, ...] = Field(default=(), description="Names of the arguments of a call that are encrypted.")


class WaitOutcome(Contract):
    """The value of the entry for an answered question or approval, and for one without an answer."""

    action: Annotated[Literal["accept", "decline", "cancel", "timeout"], OPEN]
    content: JsonObject = Field(default_factory=dict)
    by: str | None = Field(default=None, description="Id of the caller who answered.")
    note: str | None = None


class CallOutcome(Contract):
    """The value of the entry for a call of another tool."""

    task_id: str | None = Field(default=None, description="Id of its task; absent for a call that was not started.")
    result: ToolResult


class JournalPage(Contract):
    """Entries of the journal from one index on."""

    entries: tuple[StepEntry, ...]
    next: int | None = Field(default=None, description="Index of the next page's first entry; None at the end.")


class JournalState:
    """The journal in the workflow. The first record of a step counts: a late one is of an attempt that was given up."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, bool], StepEntry] = {}

    def record(self, entry: StepEntry) -> None:
        """Add an entry unless its step has one of this kind."""
        self._entries.setdefault((entry.position, entry.state == "started"), entry)

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def has(self, position: str) -> bool:
        """Return whether the step or the wait is over."""
        return (position, False) in self._entries

    def page(self, start: int) -> JournalPage:
        """Return the entries from index `start` on, about 512 KiB of them."""
        entries = list(self._entries.values())[start:]
        size = 0
        for count, entry in enumerate(entries, start=1):
            size += len(entry.model_dump_json())
            if size >= PAGE_BYTES and count < len(entries):
                return JournalPage(entries=tuple(entries[:count]), next=start + count)
        return JournalPage(entries=tuple(entries))
