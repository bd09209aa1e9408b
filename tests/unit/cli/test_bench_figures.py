"""Figures that `outlast bench tools` computes from the events of conversations."""

import itertools
from typing import Any

from outlast.cli.commands.bench import PROMPTS, Figures, mask_of
from outlast.client import Event

USAGE = {"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 60, "cache_write_tokens": 20}


def at(name: str, **data: Any) -> Event:
    return Event(name, None, "2026-01-01T00:00:00Z", data)


def step(number: int, *, model: float = 2.0, tools: float = 0.0, overhead: float = 0.0) -> Event:
    seconds = {"total": model + tools + overhead, "model": model, "tools": tools, "overhead": overhead}
    return at("step-finish", step=number, usage=USAGE, seconds=seconds)


def turn(*, status: str = "completed", overhead: float = 0.5) -> list[Event]:
    """Two tools in the first step, one of which fails; the second step answers."""
    return [
        at("text-delta", step=1, text="Let me see."),
        at("tool-call", tool="a"),
        at("tool-call", tool="b"),
        at("tool-result", tool="a", is_error=False, compressed=True),
        at("tool-result", tool="b", is_error=True),
        step(1, tools=3, overhead=overhead),
        step(2, overhead=overhead),
        at("finish", status=status),
    ]


def test_averages_are_per_conversation_and_rates_over_everything() -> None:
    figures = Figures(conversations=2)
    for status in ("completed", "completed", "stopped"):
        figures.add_turn(turn(status=status))
    found = figures.document()
    assert (found["turns"], found["failedTurns"], found["steps"], found["avgSteps"]) == (3, 1, 6, 2)
    assert (found["avgInputTokens"], found["avgOutputTokens"]) == (300, 30)
    assert (found["cacheReadTokens"], found["cacheWriteTokens"], found["cacheReadShare"]) == (180, 60, 0.6)
    assert (found["toolCalls"], found["toolSuccessRate"], found["storedOutputs"]) == (6, 0.5, 3)


def test_the_times_of_models_tools_and_of_the_rest_are_told_apart() -> None:
    figures = Figures(conversations=1)
    for number in range(1, 21):
        figures.add_turn(turn(overhead=number / 10))
    found = figures.document()
    assert found["stepOverheadSeconds"] == {"p50": 1.0, "p95": 1.9}
    assert found["modelSeconds"] == {"p50": 2.0, "p95": 2.0}
    assert found["toolSeconds"] == {"p50": 3, "p95": 3}


def test_what_was_not_measured_is_null() -> None:
    found = Figures().document()
    assert found["toolSuccessRate"] is found["avgSteps"] is found["avgInputTokens"] is None
    assert found["stepOverheadSeconds"] == {"p50": None, "p95": None}


def test_a_turn_without_an_end_has_failed() -> None:
    figures = Figures(conversations=1)
    figures.add_turn([])
    assert figures.failed_turns == 1


def test_every_message_has_another_mask() -> None:
    offered = ["search-actors", "fetch-actor-details", "search-apify-docs", "restore-tool-output"]
    masks = [mask_of(prompt, offered) for prompt in PROMPTS]
    assert all(list(mask) == offered for mask in masks)
    assert all(one != other for one, other in itertools.pairwise(masks))
    assert not any(masks[-1].values())
