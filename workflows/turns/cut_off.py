"""Tool calls that the output limit has cut off: told as that, not as broken JSON. Pure."""

from outlast.activities.conversations.contracts import ToolCallPart
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.llm.contracts import ModelStep


def is_cut_off(answer: ModelStep, part: ToolCallPart) -> bool:
    """Whether the output limit ended `answer` inside this call. Only the last call can be cut.

    Arguments that are complete JSON were written to their end. Empty ones are what is left of a call that was cut
    before its first argument.
    """
    return answer.finish_reason == "length" and part is answer.tool_calls[-1] and not part.arguments


def cut_off_call(tool: str, *, tokens: int | None = None) -> ErrorEnvelope:
    """The error for a call that was cut after `tokens` tokens of output. It may be repeated, but not as it was."""
    limit = f"after {tokens} tokens, its limit," if tokens else "at its output limit,"
    return ErrorEnvelope.transient(
        ErrorCategory.VALIDATION,
        tool,
        f"Your answer was cut {limit} inside this call. The call was not carried out.",
        hint="Write less at once: call the tool with shorter arguments, or do the work in several calls.",
    )
