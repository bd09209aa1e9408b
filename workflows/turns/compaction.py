"""Compaction of a turn's conversation: the messages so far become a summary in the store."""

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.conversations.activities import (
        KEEP_ATTEMPT_TIMEOUT,
        KEEP_RETRY_POLICY,
        ConversationActivities,
    )
    from outlast.activities.llm.activities import (
        CALL_MODEL_ATTEMPT_TIMEOUT,
        CALL_MODEL_HEARTBEAT_TIMEOUT,
        CALL_MODEL_RETRY_POLICY,
    )
    from outlast.activities.llm.compaction import (
        Compaction,
        CompactionActivities,
        KeepSummaryInput,
        Progress,
        SummarisePieceInput,
    )

from outlast.activities.conversations.contracts import (
    ConversationOwner,
    ConversationRef,
    KeepMessagesInput,
    ModelMessage,
    message_page_token,
)
from outlast.activities.llm.contracts import ModelStep, Usage
from outlast.workflows.contracts.queues import MODELS_TASK_QUEUE
from outlast.workflows.contracts.sessions import TurnInput, TurnState
from outlast.workflows.handler_api.activity_calls import tool_errors
from outlast.workflows.turns import events
from outlast.workflows.turns.budgets import BudgetExceeded, summed

SUMMARY_OUTPUT_TOKENS = 4_000
"""Output limit of a summary, where the turn's own is not smaller."""

Spend = Callable[[Usage, float | None], str | None]
"""Adds what a call of the model has used to what the turn has; gives the budget that is then used up, in words."""


def can_be_compacted(turn: TurnInput, state: TurnState) -> bool:
    """Return True if a summary could replace messages before the latest exchange."""
    return turn.compaction and (conversation_before(turn, state).head is not None or len(_earlier(state)) > 1)


def conversation_before(turn: TurnInput, state: TurnState) -> ConversationRef:
    """Messages for the model before those of the turn that the store does not have."""
    return state.conversation or turn.conversation


async def compacted(turn: TurnInput, state: TurnState, spend: Spend) -> dict[str, object]:
    """Changes of the state: a summary takes the place of all but the user's message and the latest exchange.

    Readers get the event `compaction`. Raises `ToolError` when the model or the store fails, and
    `BudgetExceeded` when a budget, or a spending cap, is used up before the summary is complete.
    """
    conversation, earlier = conversation_before(turn, state), _earlier(state)
    user = user_message(turn)
    is_within_turn = state.continues or len(earlier) > 1
    with tool_errors("conversation"):
        if is_within_turn and earlier:
            conversation = await _kept(turn, state, earlier)
        compaction = Compaction(
            caller=turn.caller,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            step=state.step,
            provider_id=turn.provider_id,
            model_id=turn.model_id,
            conversation=conversation,
            window_tokens=turn.window_tokens,
            max_output_tokens=min(turn.max_output_tokens, SUMMARY_OUTPUT_TOKENS),
            caps=turn.caps,
            keep_latest=not is_within_turn,
        )
        summary, usage, usd = await _summarised(compaction, spend)
        found = await workflow.execute_activity_method(
            CompactionActivities.keep_summary,
            KeepSummaryInput(compaction=compaction, summary=summary),
            task_queue=MODELS_TASK_QUEUE,
            start_to_close_timeout=KEEP_ATTEMPT_TIMEOUT,
            retry_policy=KEEP_RETRY_POLICY,
            summary="keep the summary",
        )
    events.publish(events.compaction(state.step, found, message_page_token(conversation), usage, usd))
    return {
        "conversation": found.conversation,
        "shortened": found.conversation,
        "messages": (user, *state.messages[len(earlier) :]),
        "continues": is_within_turn,
        "repeated": 1 if is_within_turn else 0,
    }


def user_message(turn: TurnInput) -> ModelMessage:
    """The answer of the turn."""
    return ModelMessage(role="user", parts=turn.parts)


def is_refused_for_length(answer: ModelStep) -> bool:
    """Return True if the conversation is longer than the model's context window."""
    return answer.finish_reason == "too_long"


def _earlier(state: TurnState) -> tuple[ModelMessage, ...]:
    """Those of the turn's messages that the store does not have, and that come before its latest exchange.

    An exchange is the model's latest calls, and what they answered.
    """
    spoken = [index for index, message in enumerate(state.messages) if message.role == "assistant"]
    return state.messages[: spoken[-1]] if spoken else state.messages[:1]


async def _summarised(compaction: Compaction, spend: Spend) -> tuple[str, Usage, float | None]:
    """The summary, and what its calls of the model have used. Each call is an activity, so none is repeated."""
    progress, usage, usd = Progress(), Usage(), None
    while True:
        piece = await workflow.execute_activity_method(
            CompactionActivities.summarise_piece,
            SummarisePieceInput(compaction=compaction, progress=progress),
            task_queue=MODELS_TASK_QUEUE,
            start_to_close_timeout=CALL_MODEL_ATTEMPT_TIMEOUT,
            heartbeat_timeout=CALL_MODEL_HEARTBEAT_TIMEOUT,
            retry_policy=CALL_MODEL_RETRY_POLICY,
            summary=f"summarise {compaction.conversation.messages} messages, from character {progress.done_chars}",
        )
        if piece.over is not None:
            raise BudgetExceeded(piece.over)
        over = spend(piece.usage, piece.cost_usd)
        progress, usage = piece.progress, summed(usage, piece.usage)
        usd = usd if piece.cost_usd is None else (usd or 0.0) + piece.cost_usd
        if piece.is_last:
            return progress.summary, usage, usd
        if over is not None:
            raise BudgetExceeded(over)


async def _kept(turn: TurnInput, state: TurnState, messages: tuple[ModelMessage, ...]) -> ConversationRef:
    """The conversation with the turn's earlier messages, stored: the summary refers to it."""
    request = KeepMessagesInput(
        owner=ConversationOwner(caller_id=turn.caller.id, session_id=turn.session_id),
        conversation=conversation_before(turn, state),
        messages=messages,
        about={"turn_id": turn.turn_id},
        continues=state.continues,
        repeated=state.repeated,
    )
    return await workflow.execute_activity_method(
        ConversationActivities.keep_messages,
        request,
        start_to_close_timeout=KEEP_ATTEMPT_TIMEOUT,
        retry_policy=KEEP_RETRY_POLICY,
        summary="keep what is summarised",
    )
