"""Compaction of a turn's conversation, from workflow code: what was said so far becomes a summary in the store."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.conversations.activities import (
        KEEP_ATTEMPT_TIMEOUT,
        KEEP_RETRY_POLICY,
        ConversationActivities,
    )
    from outlast.activities.llm.activities import CALL_MODEL_HEARTBEAT_TIMEOUT, CALL_MODEL_RETRY_POLICY
    from outlast.activities.llm.compaction import COMPACT_ATTEMPT_TIMEOUT, CompactInput, CompactionActivities

from outlast.activities.conversations.contracts import KeepMessagesInput
from outlast.activities.conversations.references import ConversationOwner, ConversationRef
from outlast.activities.llm.contracts import ModelMessage, ModelStep
from outlast.workflows.contracts.queues import MODELS_TASK_QUEUE
from outlast.workflows.contracts.turns import TurnInput, TurnState
from outlast.workflows.stubs.call_activity import tool_errors
from outlast.workflows.turns import events
from outlast.workflows.turns.budgets import summed

SUMMARY_OUTPUT_TOKENS = 4_000
"""Output limit of a summary, where the turn's own is not smaller."""


def can_be_compacted(turn: TurnInput, state: TurnState) -> bool:
    """Whether there is something before the latest exchange that a summary could replace."""
    return turn.compaction and (conversation_before(turn, state).head is not None or len(_earlier(state)) > 1)


def conversation_before(turn: TurnInput, state: TurnState) -> ConversationRef:
    """What is sent to the model before the turn's own messages."""
    return state.conversation or turn.conversation


async def compacted(turn: TurnInput, state: TurnState) -> TurnState:
    """The state with a summary in place of everything but the user's message and the latest exchange with tools.

    Readers are told with the event `compaction`. Raises `ToolError` when the model or the store fails.
    """
    conversation, earlier = conversation_before(turn, state), _earlier(state)
    with tool_errors("conversation"):
        if len(earlier) > 1:
            conversation = await _kept(turn, conversation, earlier)
        found = await workflow.execute_activity_method(
            CompactionActivities.compact_conversation,
            CompactInput(
                caller=turn.caller,
                session_id=turn.session_id,
                turn_id=turn.turn_id,
                step=state.step,
                provider_id=turn.provider_id,
                model_id=turn.model_id,
                conversation=conversation,
                window_tokens=turn.window_tokens,
                max_output_tokens=min(turn.max_output_tokens, SUMMARY_OUTPUT_TOKENS),
                keep_latest=len(earlier) <= 1,
            ),
            task_queue=MODELS_TASK_QUEUE,
            start_to_close_timeout=COMPACT_ATTEMPT_TIMEOUT,
            heartbeat_timeout=CALL_MODEL_HEARTBEAT_TIMEOUT,
            retry_policy=CALL_MODEL_RETRY_POLICY,
            summary=f"summarise {conversation.messages} messages",
        )
    events.publish(events.compaction(state.step, found))
    spent = state.spent.model_copy(
        update={"usage": summed(state.spent.usage, found.usage), "usd": state.spent.usd + (found.cost_usd or 0.0)}
    )
    kept = (state.messages[0], *state.messages[len(earlier) :])
    return state.model_copy(update={"conversation": found.conversation, "messages": kept, "spent": spent})


def is_refused_for_length(answer: ModelStep) -> bool:
    """Whether the model was not called, or refused, because the conversation is longer than its window."""
    return answer.finish_reason == "too_long"


def _earlier(state: TurnState) -> tuple[ModelMessage, ...]:
    """The turn's messages before its latest exchange: the model's latest calls, and what they answered."""
    spoken = [index for index, message in enumerate(state.messages) if message.role == "assistant"]
    return state.messages[: spoken[-1]] if spoken else state.messages[:1]


async def _kept(turn: TurnInput, conversation: ConversationRef, messages: tuple[ModelMessage, ...]) -> ConversationRef:
    """The conversation with the turn's earlier messages, stored: the summary refers to it."""
    order = KeepMessagesInput(
        owner=ConversationOwner(caller_id=turn.caller.id, session_id=turn.session_id),
        conversation=conversation,
        messages=messages,
    )
    return await workflow.execute_activity_method(
        ConversationActivities.keep_messages,
        order,
        start_to_close_timeout=KEEP_ATTEMPT_TIMEOUT,
        retry_policy=KEEP_RETRY_POLICY,
        summary="keep what is summarised",
    )
