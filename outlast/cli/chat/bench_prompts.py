"""The messages of every benchmarked conversation, always in the same order so that figures are comparable."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """A message and the tools that answer it. With `--mask`, no other tools may be called."""

    message: str
    tools: tuple[str, ...]


TOOLS = ("actors", "docs", "get-actor-run", "restore-tool-output")
"""The first message, unless the command line sets another."""

PROMPTS = (
    Prompt(
        "Find Actors that crawl websites. Name the two that fit best, with one sentence about each.",
        ("search-actors", "restore-tool-output"),
    ),
    Prompt(
        "Read the details of the first one. Which fields of its input are required?",
        ("fetch-actor-details", "restore-tool-output"),
    ),
    Prompt(
        "What does the documentation say about storing results in a dataset? Two sentences.",
        ("search-apify-docs", "fetch-apify-docs", "restore-tool-output"),
    ),
    Prompt("Sum up in three sentences what you found out. Call no tool.", ()),
)


def mask_of(prompt: Prompt, offered: Collection[str]) -> dict[str, bool]:
    """The tool mask of a message: only the session's tools that answer it are active."""
    return {name: name in prompt.tools for name in offered}
