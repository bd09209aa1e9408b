"""What the models of `provider_server` say: replies piece by piece, and how the next one is chosen."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Call:
    """A tool call. Arguments that are a text are sent as they are, valid or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def raw(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(dict(self.arguments))


@dataclass(frozen=True)
class Thought:
    """Reasoning. The provider signs or encrypts it, and checks it when it comes back."""

    text: str


@dataclass(frozen=True)
class Hold:
    """The stream waits here until the test opens the gate: `server.gate(name).open()`."""

    gate: str


@dataclass(frozen=True)
class Break:
    """The connection is cut here."""


@dataclass(frozen=True)
class Fail:
    """The provider reports an error in the middle of the stream."""

    kind: str
    message: str


Piece = str | Call | Thought | Hold | Break | Fail


@dataclass(frozen=True)
class Reply:
    """One answer."""

    pieces: tuple[Piece, ...] = ()
    finish: Literal["length", "content_filter"] | None = None


@dataclass(frozen=True)
class Refusal:
    """An answer with an error status. `hold` waits for a gate first."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str | None = None


@dataclass(frozen=True)
class Raw:
    """A body that is sent as it is: each piece by itself, and a clean end unless a `Break` is the last."""

    pieces: tuple[bytes | Hold | Break, ...]
    content_type: str = "text/event-stream"


Step = Reply | Refusal | Raw


@dataclass(frozen=True)
class Asked:
    """What a script may look at to choose its next step."""

    protocol: Literal["responses", "chat", "messages"]
    number: int
    """How many requests came before, of all conversations."""
    position: int
    """How often the assistant has already spoken in this conversation: the same for a repeated request."""
    body: Mapping[str, Any]
    tools: tuple[str, ...]
    callable_tools: tuple[str, ...]
    """Those that the request's `tool_choice` lets the model call."""
    results: tuple[str, ...]
    """What the calls of the assistant's last message have given; empty when it called none."""


Script = Callable[[Asked], Step]


def says(*pieces: Piece, finish: Literal["length", "content_filter"] | None = None) -> Reply:
    """A reply of these pieces."""
    return Reply(pieces, finish)


def in_order(*steps: Step) -> Script:
    """One step per request, whoever asks; the last one is repeated."""
    return lambda asked: steps[min(asked.number, len(steps) - 1)]


def by_position(*steps: Step) -> Script:
    """The step by its place in the conversation: a repeated request gets the same one. The last one is repeated."""
    return lambda asked: steps[min(asked.position, len(steps) - 1)]


def from_json(text: str) -> Script:
    """A script by position: a list of `{"say": [...], "finish"}` and `{"status", "kind", "message", "headers"}`.

    What is said is a text, `{"call", "arguments"}`, `{"hold"}`, `{"break": true}` or `{"fail", "message"}`.
    """
    return by_position(*(_step(entry) for entry in json.loads(text)))


def _step(entry: Mapping[str, Any]) -> Step:
    if "status" in entry:
        return Refusal(**entry)
    said: Sequence[Any] = [entry["say"]] if isinstance(entry["say"], str) else entry["say"]
    return Reply(tuple(_piece(piece) for piece in said), entry.get("finish"))


def _piece(piece: Any) -> Piece:
    match piece:
        case str():
            return piece
        case {"call": name}:
            return Call(name, piece.get("arguments", {}), piece.get("id"))
        case {"hold": gate}:
            return Hold(gate)
        case {"break": True}:
            return Break()
        case {"fail": kind, "message": message}:
            return Fail(kind, message)
        case _:
            raise ValueError(f"not a piece of a reply: {piece}")
