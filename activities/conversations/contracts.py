"""Contracts of kept conversations: the block that the store holds, and the input that adds one.

A conversation is a chain of blocks, each with the messages that one step of a turn added. A block names the blocks
before it and never changes, so a reference to the last block stands for the whole conversation, and a fork shares its
beginning. Histories hold references only: what a step writes is what is new, however long turn and conversation are.
"""

from pydantic import Field, JsonValue

from outlast.activities.contracts import Contract
from outlast.activities.conversations.references import ConversationOwner, ConversationRef, Digest
from outlast.activities.llm.contracts import ModelMessage

MAX_BEFORE = 8
"""How many earlier blocks a block names. They are read at once; the first of them names the next ones."""


class PromptHead(Contract):
    """The beginning of all prompts of a session, which never changes in it."""

    system: str = Field(default="", description="Static text.")
    definitions_json: str = Field(default="[]", description="The tools, see `CallModelInput`.")


class Block(Contract):
    """Messages that were added to a conversation together, or the beginning of a session's prompts."""

    before: tuple[Digest, ...] = Field(
        default=(), max_length=MAX_BEFORE, description="The blocks before this one, the nearest last."
    )
    messages: tuple[ModelMessage, ...]
    about: dict[str, JsonValue] = Field(default_factory=dict, description="What the turn that wrote it came to.")
    summary_of: ConversationRef | None = Field(
        default=None,
        description="The conversation that `messages` summarise. A model is sent the summary, a person reads on there.",
    )
    locators: tuple[str, ...] = Field(
        default=(), description="With `summary_of`: those of the stored outputs that the summarised messages name."
    )
    continues: bool = Field(default=False, description="Whether the block before has the beginning of the same turn.")
    repeated: int = Field(
        default=0,
        ge=0,
        description="How many of the first messages the block before has too: of the same turn, and summarised.",
    )

    prompt: PromptHead | None = Field(
        default=None, description="Such a block has no messages, and is part of no conversation."
    )


class KeepMessagesInput(Contract):
    """Input of `keep_messages`: adds a block to a conversation."""

    owner: ConversationOwner
    conversation: ConversationRef
    messages: tuple[ModelMessage, ...]
    about: dict[str, JsonValue] = Field(default_factory=dict)
    continues: bool = False
    repeated: int = 0


class ForgetSessionInput(Contract):
    """Input of `forget_session`: deletes a session that its owner does not want any more."""

    owner: ConversationOwner
    workflows: tuple[str, ...] = Field(
        default=(), description="Turns and tasks of the session, as far as it knows them."
    )
    query: str = Field(description="Temporal's list filter for all workflows of the session.")


class ForgottenSession(Contract):
    """Result of a deletion."""

    outputs: int
    histories: int
