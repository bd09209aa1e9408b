"""The short form of a stored output: locator, summary, and how to restore a part of it."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from outlast.activities.outputs.contracts import StoredOutput
from outlast.workflows.contracts.tool_calls import Offers
from outlast.workflows.tools.answers.answer import Answer
from outlast.workflows.tools.answers.wording import describe_size

RESTORE_TOOL = "restore-tool-output"


class OutputFacts(Answer):
    """Description of a stored output."""

    kind: str = Field(description="rows, json, text or binary.")
    content_type: str
    size_bytes: int
    count: int | None = Field(default=None, description="Number of rows or list elements.")
    expires_at: datetime


class CompressedOutput(OutputFacts):
    """What replaces a stored output in an answer."""

    compressed: Literal[True] = True
    locator: str = Field(description="Pass it to restore-tool-output, exactly as it is.")
    summary: str = Field(description="What is in the output.")


def output_facts(output: StoredOutput) -> OutputFacts:
    """`output` without its locator and summary."""
    return OutputFacts(
        kind=output.kind,
        content_type=output.content_type,
        size_bytes=output.size_bytes,
        count=output.count,
        expires_at=output.expires_at,
    )


def compressed_form(output: StoredOutput) -> CompressedOutput:
    """The short form of `output`."""
    return CompressedOutput(
        **output_facts(output).model_dump(), compressed=True, locator=output.locator, summary=output.summary
    )


def describe_stored(output: StoredOutput) -> str:
    """A text with the locator, size and summary of the output."""
    return f"The whole output is stored ({describe_size(output.size_bytes)}) as {output.locator}.\n{output.summary}"


def restore_hint(output: StoredOutput, offers: Offers) -> str:
    """How to restore more of the output; nothing that a model may not call is named."""
    until = f"It is kept until {output.expires_at:%Y-%m-%d %H:%M} UTC."
    if not offers(RESTORE_TOOL):
        return f"No tool that may be called here gives more of it. {until}"
    wanted = {
        "rows": "rows by offset and limit, few fields, or those that match a filter",
        "json": "the part you need, by a query",
        "text": "a range of it",
        "binary": "its bytes",
    }[output.kind]
    return f"When this is not enough, call {RESTORE_TOOL} with that locator for {wanted}. {until}"
