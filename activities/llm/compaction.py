"""The activity that summarises a conversation which no longer fits its model's window."""

from datetime import timedelta

from pydantic import Field
from temporalio import activity

from outlast.activities.contracts import Caller, Contract
from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.conversations.contracts import Block
from outlast.activities.conversations.references import ConversationOwner, ConversationRef
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.provider_error import ProviderError
from outlast.activities.heartbeat import heartbeating
from outlast.activities.llm.activities import ModelActivities
from outlast.activities.llm.contracts import CallModelInput, ModelMessage, ModelStep, TextPart, Usage
from outlast.activities.llm.transcripts import locators_of, pieces_of_transcript
from outlast.activities.llm.windows import CHARS_PER_TOKEN, is_too_long, tokens_of_message

COMPACT_ATTEMPT_TIMEOUT = timedelta(minutes=30)
UNKNOWN_WINDOW_TOKENS = 16_000
"""The window that is counted with where it is not known; pieces that are refused as too long are halved."""
_LEAST_PIECE_CHARS = 2_000
_SHARE_OF_LATEST = 8
"""The latest turn stays word for word when it takes no more than this part of the window."""

INSTRUCTIONS = """
You summarise a conversation between a user and an assistant that works with tools, so that the assistant can continue
it without the original. Keep: what the user wants, with every constraint and preference; what was decided and why; what
was done and found, with names, ids, numbers, addresses and locators exactly as written; what is still open. Leave out
what no longer matters. Write plain text, at most 800 words, and nothing else.
""".strip()


class CompactInput(Contract):
    """Input of `compact_conversation`."""

    caller: Caller
    session_id: str
    turn_id: str
    step: int
    provider_id: str
    model_id: str
    conversation: ConversationRef
    window_tokens: int | None = None
    max_output_tokens: int
    keep_latest: bool = Field(description="Whether the latest turn may stay word for word.")

    @property
    def owner(self) -> ConversationOwner:
        """Whose conversation it is."""
        return ConversationOwner(caller_id=self.caller.id, session_id=self.session_id)


class Compacted(Contract):
    """A conversation that begins with a summary, and what it cost. The store keeps the original beneath it."""

    conversation: ConversationRef
    summary: str
    summarised: int = Field(description="How many messages the summary stands for.")
    usage: Usage = Usage()
    cost_usd: float | None = None


class CompactionActivities:
    """Summarises conversations with the model that they are held with."""

    def __init__(self, models: ModelActivities, conversations: ConversationBlocks) -> None:
        """Call `models`; read and write `conversations`."""
        self._models = models
        self._conversations = conversations

    @activity.defn
    async def compact_conversation(self, request: CompactInput) -> Compacted:
        """Summarise the conversation piece by piece and store the summary as the beginning of a new one.

        The summary's block refers to the original conversation, which stays readable as long as the session.
        """
        with as_activity_failure():
            async with heartbeating():
                older, latest = await self._split(request)
                steps = await self._summarised(request, older)
                text = _with_locators(steps[-1].text, locators_of(older))
                message = ModelMessage(role="user", parts=(TextPart(text=text),))
                block = Block(messages=(message, *latest), summary_of=request.conversation)
                kept = await self._conversations.append(request.owner, ConversationRef(), block)
                costs = [step.cost_usd for step in steps if step.cost_usd is not None]
                return Compacted(
                    conversation=kept,
                    summary=steps[-1].text,
                    summarised=len(older),
                    usage=_total(steps),
                    cost_usd=sum(costs) if costs else None,
                )

    async def _split(self, request: CompactInput) -> tuple[tuple[ModelMessage, ...], tuple[ModelMessage, ...]]:
        """The messages to be summarised, and those of the latest turn when they stay as they are."""
        messages = await self._conversations.messages(request.owner, request.conversation)
        if not request.keep_latest or request.conversation.head is None:
            return messages, ()
        block = await self._conversations.block(request.owner, request.conversation.head)
        window = request.window_tokens or UNKNOWN_WINDOW_TOKENS
        size = sum(tokens_of_message(message) for message in block.messages)
        is_small = (
            block.summary_of is None and len(block.messages) < len(messages) and size <= window // _SHARE_OF_LATEST
        )
        latest = block.messages if is_small else ()
        return messages[: len(messages) - len(latest)], latest

    async def _summarised(self, request: CompactInput, messages: tuple[ModelMessage, ...]) -> list[ModelStep]:
        """The model's answers, the last of which is the summary."""
        window = request.window_tokens or UNKNOWN_WINDOW_TOKENS
        # Half of the window, counted carefully: the rest is for instructions, summary so far, and the answer.
        size = max(window * CHARS_PER_TOKEN // 2, _LEAST_PIECE_CHARS)
        while True:
            try:
                return await self._summary_of_pieces(request, list(pieces_of_transcript(messages, size)))
            except ProviderError as error:
                if not is_too_long(error) or size <= _LEAST_PIECE_CHARS:
                    raise
                size = max(size // 2, _LEAST_PIECE_CHARS)

    async def _summary_of_pieces(self, request: CompactInput, pieces: list[str]) -> list[ModelStep]:
        steps: list[ModelStep] = []
        for piece in pieces:
            so_far = f"Summary of what came before:\n{steps[-1].text}\n\n" if steps else ""
            step = await self._models.ask(_order(request, f"{so_far}The conversation:\n\n{piece}"))
            if not step.text.strip():
                raise ProviderError(request.provider_id, "the model gave no summary of the conversation", kinds=())
            steps.append(step)
        return steps


def _order(request: CompactInput, text: str) -> CallModelInput:
    return CallModelInput(
        caller=request.caller,
        provider_id=request.provider_id,
        model_id=request.model_id,
        session_id=request.session_id,
        turn_id=request.turn_id,
        step=request.step,
        system=INSTRUCTIONS,
        messages=(ModelMessage(role="user", parts=(TextPart(text=text),)),),
        max_output_tokens=request.max_output_tokens,
    )


def _with_locators(summary: str, locators: tuple[str, ...]) -> str:
    stored = f"\nLocators of stored outputs: {', '.join(locators)}" if locators else ""
    return f"<summary-of-earlier-conversation>\n{summary}{stored}\n</summary-of-earlier-conversation>"


def _total(steps: list[ModelStep]) -> Usage:
    counts = [step.usage.model_dump() for step in steps]
    return Usage.model_validate({name: sum(count[name] for count in counts) for name in Usage.model_fields})
