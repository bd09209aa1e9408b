"""Activities that summarise a conversation that is too long for its model's window, piece by piece."""

from collections.abc import Iterable, Sequence

from pydantic import Field
from temporalio import activity

from outlast.activities.contracts import Caller, Contract
from outlast.activities.conversations.activities import store_awaited
from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.conversations.contracts import (
    Block,
    ConversationOwner,
    ConversationRef,
    ModelMessage,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from outlast.activities.failures.classify import as_activity_failure
from outlast.activities.failures.exceptions import ProviderError
from outlast.activities.heartbeat import activity_scope
from outlast.activities.llm.activities import ModelActivities
from outlast.activities.llm.contracts import CallModelInput, Usage
from outlast.activities.llm.refused_prompts import CHARS_PER_TOKEN, is_too_long, tokens_of_message
from outlast.activities.spending.contracts import SpendingCaps

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


class Compaction(Contract):
    """The messages to summarise, and the model for it."""

    caller: Caller
    session_id: str
    turn_id: str
    step: int
    provider_id: str
    model_id: str
    conversation: ConversationRef
    window_tokens: int | None = None
    max_output_tokens: int
    caps: SpendingCaps | None = Field(default=None, description="The caller's spending caps, if it has any.")
    keep_latest: bool = Field(description="Whether the latest turn may stay word for word.")

    @property
    def owner(self) -> ConversationOwner:
        """Whose conversation it is."""
        return ConversationOwner(caller_id=self.caller.id, session_id=self.session_id)


class Progress(Contract):
    """The progress of a summary."""

    summary: str = Field(default="", description="Summary of everything up to `done_chars`.")
    done_chars: int = Field(default=0, description="Number of summarised characters of the conversation's transcript.")
    piece_chars: int | None = Field(default=None, description="Size of the next piece; None: derived from the window.")


class SummarisePieceInput(Contract):
    """Input of `summarise_piece`."""

    compaction: Compaction
    progress: Progress = Progress()


class SummarisedPiece(Contract):
    """One call of the model, and what it cost."""

    progress: Progress
    is_last: bool
    over: str | None = Field(
        default=None, description="The cap that left nothing for the call, so that the call was not made."
    )
    usage: Usage = Usage()
    cost_usd: float | None = None


class KeepSummaryInput(Contract):
    """Input of `keep_summary`."""

    compaction: Compaction
    summary: str


class Compacted(Contract):
    """A conversation that begins with a summary. The store keeps the original, too."""

    conversation: ConversationRef
    summary: str
    summarised: int = Field(description="Number of messages that the summary replaces.")
    locators: tuple[str, ...] = Field(
        default=(), description="Locators of the stored outputs that those messages name."
    )


class CompactionActivities:
    """Summarises conversations with the model that they are held with. One activity makes one call of the model: what
    is paid for is recorded, and never paid for twice.
    """

    def __init__(self, models: ModelActivities, conversations: ConversationBlocks) -> None:
        self._models = models
        self._conversations = conversations

    @activity.defn
    async def summarise_piece(self, request: SummarisePieceInput) -> SummarisedPiece:
        """Summarise the next piece of the conversation, together with the summary of what came before it. A piece that
        the provider refuses for its length is halved; so are those after it. When a spending cap leaves nothing, the
        model is not called.
        """
        async with activity_scope():
            older, _ = await self._split(request.compaction)
            return await self._summarised(request.compaction, request.progress, transcript_of(older))

    @activity.defn
    async def keep_summary(self, request: KeepSummaryInput) -> Compacted:
        """Store the summary as the beginning of a new conversation. Its block refers to the original conversation,
        which stays readable as long as the session.
        """
        with as_activity_failure():
            owner, original = request.compaction.owner, request.compaction.conversation
            older, latest = await self._split(request.compaction)
            beginning = await self._conversations.beginning(owner, original)
            # A summary of a summary: the messages have the locators of the first one as text only.
            earlier = beginning.locators if beginning is not None else ()
            locators = tuple(dict.fromkeys((*earlier, *locators_of(older))))
            message = ModelMessage(role="user", parts=(TextPart(text=_with_locators(request.summary, locators)),))
            block = Block(messages=(message, *latest), summary_of=original, locators=locators)
            with store_awaited():
                kept = await self._conversations.append(owner, ConversationRef(), block)
            return Compacted(conversation=kept, summary=request.summary, summarised=len(older), locators=locators)

    async def _split(self, compaction: Compaction) -> tuple[tuple[ModelMessage, ...], tuple[ModelMessage, ...]]:
        """Return the messages to be summarised, and those of the latest turn when they stay as they are."""
        messages = await self._conversations.messages(compaction.owner, compaction.conversation)
        if not compaction.keep_latest or compaction.conversation.head is None:
            return messages, ()
        latest = await self._conversations.latest_turn(compaction.owner, compaction.conversation)
        window = compaction.window_tokens or UNKNOWN_WINDOW_TOKENS
        size = sum(tokens_of_message(message) for message in latest)
        is_small = len(latest) < len(messages) and size <= window // _SHARE_OF_LATEST
        latest = latest if is_small else ()
        return messages[: len(messages) - len(latest)], latest

    async def _summarised(self, compaction: Compaction, progress: Progress, transcript: str) -> SummarisedPiece:
        window = compaction.window_tokens or UNKNOWN_WINDOW_TOKENS
        # Half of the window, counted carefully: the rest is for instructions, summary so far, and the answer.
        size = progress.piece_chars or max(window * CHARS_PER_TOKEN // 2, _LEAST_PIECE_CHARS)
        while True:
            piece = piece_of_transcript(transcript, progress.done_chars, size)
            try:
                request = _request(compaction, progress.summary, piece.strip())
                over = await self._models.used_up(request)
                if over is not None:
                    return SummarisedPiece(progress=progress, is_last=False, over=over)
                step = await self._models.ask(request)
            except ProviderError as error:
                if not is_too_long(error) or size <= _LEAST_PIECE_CHARS:
                    raise
                size = max(size // 2, _LEAST_PIECE_CHARS)
                continue
            if not step.text.strip():
                raise ProviderError(
                    compaction.provider_id, "the model did not return a summary of the conversation", kinds=()
                )
            done = progress.done_chars + len(piece)
            return SummarisedPiece(
                progress=Progress(summary=step.text, done_chars=done, piece_chars=size),
                is_last=done >= len(transcript),
                usage=step.usage,
                cost_usd=step.cost_usd,
            )


def _request(compaction: Compaction, summary: str, piece: str) -> CallModelInput:
    """Return the call of the model that summarises one piece, given the summary of those before."""
    so_far = f"Summary of what came before:\n{summary}\n\n" if summary else ""
    text = f"{so_far}The conversation:\n\n{piece}"
    return CallModelInput(
        caller=compaction.caller,
        provider_id=compaction.provider_id,
        model_id=compaction.model_id,
        session_id=compaction.session_id,
        turn_id=compaction.turn_id,
        step=compaction.step,
        system=INSTRUCTIONS,
        messages=(ModelMessage(role="user", parts=(TextPart(text=text),)),),
        max_output_tokens=compaction.max_output_tokens,
        caps=compaction.caps,
    )


def _with_locators(summary: str, locators: tuple[str, ...]) -> str:
    stored = f"\nLocators of stored outputs: {', '.join(locators)}" if locators else ""
    return f"<summary-of-earlier-conversation>\n{summary}{stored}\n</summary-of-earlier-conversation>"


MAX_ARGUMENT_CHARS = 1_000
MAX_RESULT_CHARS = 4_000


def transcript_of(messages: Sequence[ModelMessage]) -> str:
    """Return the whole conversation as a text; long arguments and results are shortened."""
    paragraphs = (_paragraph(message.role, part) for message in messages for part in message.parts)
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def piece_of_transcript(transcript: str, start: int, size: int) -> str:
    """At most `size` characters from `start` on, cut between paragraphs where they are short enough. Never empty."""
    piece = transcript[start : start + size]
    end = piece.rfind("\n\n") + 2
    is_last = start + size >= len(transcript)
    return piece if is_last or end <= size // 2 else piece[:end]


def locators_of(messages: Iterable[ModelMessage]) -> tuple[str, ...]:
    """Return the locators of stored outputs in `messages`, each once."""
    parts = (part for message in messages for part in message.parts if isinstance(part, ToolResultPart))
    return tuple(dict.fromkeys(part.locator for part in parts if part.locator))


def _paragraph(role: str, part: Part) -> str:
    match part:
        case TextPart(text=text):
            return f"{role.upper()}: {text}" if text.strip() else ""
        case ToolCallPart():
            return f"ASSISTANT calls {part.name}: {_shortened(part.raw_arguments, MAX_ARGUMENT_CHARS)}"
        case ToolResultPart():
            stored = f" (stored as {part.locator})" if part.locator else ""
            failed = " failed" if part.is_error else ""
            return f"{part.name}{failed}{stored}: {_shortened(part.text, MAX_RESULT_CHARS)}"
        case _ if part.type == "image":
            return f"{role.upper()}: [a picture]"
        case _:
            return ""


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit} characters left out]"
