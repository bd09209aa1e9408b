"""A prompt: a text that a user picks from a menu of the client. Extensions list theirs in `PROMPTS`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class PromptArgument:
    """One argument of a prompt. `values` are suggested while the user types."""

    name: str
    description: str
    required: bool = True
    values: Sequence[str] = ()


@dataclass(frozen=True)
class Prompt:
    """A prompt. `render` returns the content blocks (MCP `ContentBlock`) of its messages; all have the role `user`."""

    name: str
    title: str
    description: str
    render: Callable[[Mapping[str, str]], Sequence[JsonObject]]
    arguments: tuple[PromptArgument, ...] = field(default=())

    def missing_arguments(self, given: Mapping[str, str]) -> list[PromptArgument]:
        """The required arguments that `given` does not have."""
        return [argument for argument in self.arguments if argument.required and argument.name not in given]


def text_block(text: str) -> JsonObject:
    """A content block of text (MCP `TextContent`)."""
    return {"type": "text", "text": text}


RUN_ACTOR = Prompt(
    name="run-actor",
    title="Run an Actor",
    description="Find out what input an Actor takes, run it, and summarise its results.",
    arguments=(
        PromptArgument("actor", "Actor as `user/name`."),
        PromptArgument("goal", "What the result is for."),
    ),
    render=lambda given: (
        text_block(
            f"Run the Actor {given['actor']} for me. What I want: {given['goal']}\n"
            "1. Look up its input with fetch-actor-details.\n"
            "2. Call it with call-actor. The input must fit the Actor's schema and ask for no more than I need.\n"
            "3. If the run has not finished when the call returns, collect the result with get-task.\n"
            "4. Summarise the result: the number of rows, the main findings, and where the remaining rows are."
        ),
    ),
)
