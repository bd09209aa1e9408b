"""Computes the figures of benchmarked conversations from their events. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outlast.client import Event

_DECIMALS = 4


@dataclass
class Figures:
    """Sums over all conversations with one model; `document` makes averages of them."""

    conversations: int = 0
    turns: int = 0
    failed_turns: int = 0
    masked_turns: int = 0
    steps: int = 0
    tokens: dict[str, int] = field(default_factory=dict[str, int])
    tool_calls: int = 0
    failed_tool_calls: int = 0
    stored_outputs: int = 0
    seconds: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def add_turn(self, events: Iterable[Event], *, offered: int = 0) -> None:
        """Count one turn, given all its events and the number of tools that its session offers."""
        self.turns += 1
        completed = False
        for event in events:
            match event.name:
                case "tool-result":
                    self._add_result(event.data)
                case "step-finish":
                    self._add_step(event.data)
                    active = event.data.get("active_tools")
                    self.masked_turns += (
                        event.data.get("step") == 1 and isinstance(active, list) and len(active) < offered
                    )
                case "finish":
                    completed = event.data.get("status") == "completed"
                case _:
                    pass
        self.failed_turns += not completed

    def document(self) -> dict[str, Any]:
        """The figures as JSON for programs; null where there is no measurement."""
        return {
            "conversations": self.conversations,
            "turns": self.turns,
            "failedTurns": self.failed_turns,
            "maskedTurns": self.masked_turns,
            "steps": self.steps,
            "avgSteps": _share(self.steps, self.turns),
            "avgInputTokens": self._average("input_tokens"),
            "avgOutputTokens": self._average("output_tokens"),
            "cacheReadTokens": self._average("cache_read_tokens"),
            "cacheWriteTokens": self._average("cache_write_tokens"),
            "cacheReadShare": _share(self.tokens.get("cache_read_tokens", 0), self.tokens.get("input_tokens", 0)),
            "toolCalls": self.tool_calls,
            "toolSuccessRate": _share(self.tool_calls - self.failed_tool_calls, self.tool_calls),
            "storedOutputs": self.stored_outputs,
            "modelSeconds": self._percentiles("model"),
            "toolSeconds": self._percentiles("tools"),
            "stepOverheadSeconds": self._percentiles("overhead"),
        }

    def _average(self, name: str) -> float | None:
        return _share(self.tokens.get(name, 0), self.conversations)

    def _percentiles(self, part: str) -> dict[str, float | None]:
        seconds = [step[part] for step in self.seconds if part != "tools" or step[part] > 0]
        return {"p50": _percentile(seconds, 50), "p95": _percentile(seconds, 95)}

    def _add_result(self, data: dict[str, Any]) -> None:
        self.tool_calls += 1
        self.failed_tool_calls += bool(data.get("is_error"))
        self.stored_outputs += bool(data.get("compressed"))

    def _add_step(self, data: dict[str, Any]) -> None:
        self.steps += 1
        for name, number in data["usage"].items():
            self.tokens[name] = self.tokens.get(name, 0) + number
        self.seconds.append(data["seconds"])


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, _DECIMALS) if whole else None


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest value that `percent` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1], _DECIMALS)
