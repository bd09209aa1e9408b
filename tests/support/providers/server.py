"""A provider of models for tests: real wire formats over real HTTP, a script instead of a model.

It serves OpenAI's Responses and Chat Completions and Anthropic's Messages, streamed and whole; refuses what the
providers refuse (`provider_rules`); keeps every request byte for byte; and tells what a prompt cache would have served
(`provider_cache`), so that a broken prefix shows as lost cache reads.

    with running_provider(by_position(says(Call("search", {"q": "x"})), says("Found ", "it."))) as provider:
        environment = provider.environment
"""

import asyncio
import json
import logging
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import uvicorn

from tests.support.providers.cache import CacheUse, PromptCache
from tests.support.providers.rules import Refused, check, input_items, merged_turns
from tests.support.providers.script import (
    Asked,
    Break,
    Call,
    Hold,
    Raw,
    Refusal,
    Reply,
    Script,
    Step,
    by_position,
    from_json,
    says,
)
from tests.support.providers.wire import STREAMS, Answer, Frame, error_body, whole_frames

Protocol = Literal["responses", "chat", "messages"]
_PATHS: dict[str, Protocol] = {"/responses": "responses", "/chat/completions": "chat", "/v1/messages": "messages"}
_LOOK_SECONDS = 0.005
_THREAD_NAME = "model-provider"
KEY = "sk-test-0123456789abcdef"

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class Gate:
    """Where a stream waits."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()


@dataclass
class SeenRequest:
    """A request, byte for byte, and what became of it."""

    number: int
    protocol: Protocol
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any]
    use: CacheUse | None = None
    """None when it was refused."""
    refused: str | None = None
    disconnected: threading.Event = field(default_factory=threading.Event)
    """Set when the client has hung up before the answer's end."""

    @property
    def asked(self) -> Asked:
        """What a script sees of it."""
        return _asked(self)


class ProviderServer:
    """The server's state, to be looked at and steered from a test's thread."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.keeps_all = True
        """Whether every request is kept; else only the latest, and no cache: for conversations of megabytes."""
        self.heeds_tool_choice = True
        """Whether models call only what `tool_choice` allows; not every server of Chat Completions sees to it."""
        self.requests: list[SeenRequest] = []
        self.url = ""
        self._gates: dict[str, Gate] = {}
        self._cache = PromptCache()

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a worker that uses this server for every provider."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": KEY,
            "OUTLAST_ZAI_BASE_URL": f"{self.url}/zai/v4",
            "OUTLAST_ZAI_API_KEY": KEY,
            "OUTLAST_GENERIC_BASE_URL": f"{self.url}/v1",
            "OUTLAST_GENERIC_API_KEY": KEY,
            "NO_PROXY": "127.0.0.1",
        }

    def gate(self, name: str) -> Gate:
        """The gate of this name; the same one for everybody."""
        return self._gates.setdefault(name, Gate())

    def open_all(self) -> None:
        """Let everything go on."""
        for gate in self._gates.values():
            gate.open()

    def take(self, path: str, headers: Mapping[str, str], raw: bytes) -> tuple[SeenRequest, Step]:
        """Record a request and decide on its answer."""
        protocol: Protocol | None = next((known for end, known in _PATHS.items() if path.endswith(end)), None)
        if protocol is None:
            raise Refused(f"Unknown path {path}", 404, "not_found_error")
        seen = SeenRequest(len(self.requests), protocol, path, headers, raw, json.loads(raw))
        if not self.keeps_all:
            self.requests.clear()
        self.requests.append(seen)
        try:
            check(protocol, seen.body, headers, path)
        except Refused as refusal:
            seen.refused = refusal.message
            return seen, Refusal(refusal.status, refusal.kind, refusal.message)
        step = self.script(seen.asked)
        if isinstance(step, Raw):
            return seen, step
        if isinstance(step, Refusal):
            seen.refused = step.message
        else:
            seen.use = self._cache.use(protocol, seen.body) if self.keeps_all else CacheUse(len(raw) // 4, 0, 0)
        return seen, step

    def answer(self, seen: SeenRequest, reply: Reply) -> Answer:
        """The reply as this request gets it: a model cannot call what `tool_choice` forbids."""
        allowed = seen.asked.callable_tools
        is_limited = self.heeds_tool_choice and len(allowed) < len(seen.asked.tools)
        pieces = tuple(
            f"(I may not call {piece.name}.)"
            if isinstance(piece, Call) and is_limited and piece.name not in allowed
            else piece
            for piece in reply.pieces
        )
        asks = seen.body.get("stream_options", {}).get("include_usage")
        usage_when = "with_last" if "/zai/" in seen.path else "on_request" if asks else "never"
        assert seen.use is not None
        prefix = f"{'toolu' if seen.protocol == 'messages' else 'call'}_{seen.asked.position}"
        encrypts = "reasoning.encrypted_content" in seen.body.get("include", ())
        return Answer(Reply(pieces, reply.finish), seen.body["model"], prefix, seen.use, usage_when, encrypts)


@contextmanager
def running_provider(script: Script, port: int = 0) -> Iterator[ProviderServer]:
    """Serve until the end of the block, in a thread of its own. `script` may be exchanged while it runs."""
    provider = ProviderServer(script)
    # With its protocol named, asyncio switches off what holds small pieces back for 40 ms.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    # From here on whoever connects waits; uvicorn listens only when its thread gets to it.
    listener.listen()
    provider.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        _application(provider), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = _Server(config)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listener])), name=_THREAD_NAME, daemon=True
    )
    logger = logging.getLogger("uvicorn.error")
    logger.addFilter(_is_no_cut)
    thread.start()
    try:
        yield provider
    finally:
        provider.open_all()
        server.should_exit = True
        thread.join()
        listener.close()
        logger.removeFilter(_is_no_cut)


def _is_no_cut(record: logging.LogRecord) -> bool:
    """Whether uvicorn logs something else than a connection that a script cuts, which is an error to it."""
    return record.threadName != _THREAD_NAME or "without completing response" not in record.getMessage()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the test run's own signal handlers alone."""
        yield


def _application(provider: ProviderServer) -> Any:
    async def application(scope: Message, receive: Receive, send: Send) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        raw = await _read(receive)
        try:
            seen, step = provider.take(scope["path"], headers, raw)
        except Refused as refusal:
            await _send_error(send, "chat", Refusal(refusal.status, refusal.kind, refusal.message))
            return
        if isinstance(step, Refusal):
            await _send_error(send, seen.protocol, step)
            return
        if isinstance(step, Raw):
            await _send_frames(provider, seen, step.pieces, receive, send, kind=step.content_type)
            return
        answer = provider.answer(seen, step)
        streamed = bool(seen.body.get("stream"))
        frames = STREAMS[seen.protocol](answer) if streamed else whole_frames(seen.protocol, answer)
        kind = "text/event-stream" if streamed else "application/json"
        await _send_frames(provider, seen, frames, receive, send, kind=kind)

    return application


async def _read(receive: Receive) -> bytes:
    raw, more = b"", True
    while more:
        message = await receive()
        raw, more = raw + message.get("body", b""), message.get("more_body", False)
    return raw


async def _send_error(send: Send, protocol: str, refusal: Refusal) -> None:
    body = json.dumps(error_body(protocol, refusal.kind, refusal.message, refusal.code)).encode()
    headers = [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
    headers.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_frames(
    provider: ProviderServer,
    seen: SeenRequest,
    frames: Iterator[Frame] | Sequence[Frame],
    receive: Receive,
    send: Send,
    *,
    kind: str,
) -> None:
    """Send them. A break leaves the answer unfinished, upon which the connection is cut."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind.encode())]})
    hung_up = asyncio.create_task(_hung_up(receive, seen))
    try:
        for frame in frames:
            if isinstance(frame, Break) or seen.disconnected.is_set():
                return
            if isinstance(frame, Hold):
                if not await _opened(provider.gate(frame.gate), seen):
                    return
                continue
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        hung_up.cancel()
        with suppress(asyncio.CancelledError):
            await hung_up


async def _hung_up(receive: Receive, seen: SeenRequest) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    seen.disconnected.set()


async def _opened(gate: Gate, seen: SeenRequest) -> bool:
    gate.reached.set()
    while not gate.is_open:
        if seen.disconnected.is_set():
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


def _asked(seen: SeenRequest) -> Asked:
    body = seen.body
    tools = tuple(tool["function"]["name"] if "function" in tool else tool["name"] for tool in body.get("tools", []))
    turns = _turns(seen.protocol, body)
    speakers = [role for index, (role, _) in enumerate(turns) if index == 0 or turns[index - 1][0] != role]
    results: list[str] = []
    for role, text in reversed(turns):
        if role == "assistant":
            break
        if role == "result":
            results.insert(0, text)
    return Asked(
        protocol=seen.protocol,
        number=seen.number,
        position=_count_assistant(speakers),
        body=body,
        tools=tools,
        callable_tools=_callable(body.get("tool_choice"), tools),
        results=tuple(results),
    )


def _count_assistant(speakers: Sequence[str]) -> int:
    return sum(1 for role in speakers if role == "assistant")


def _callable(choice: Any, tools: tuple[str, ...]) -> tuple[str, ...]:
    match choice:
        case "none" | {"type": "none"}:
            return ()
        case {"type": "allowed_tools", "tools": allowed}:
            return tuple(tool["name"] for tool in cast(list[dict[str, str]], allowed))
        case _:
            return tools


def _turns(protocol: Protocol, body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who says what: `user`, `assistant`, `result`. Dynamic text is nobody's."""
    if protocol == "messages":
        return [turn for role, blocks in merged_turns(body["messages"]) for turn in _claude_turns(role, blocks)]
    entries = input_items(body) if protocol == "responses" else body["messages"]
    turns: list[tuple[str, str]] = []
    for entry in entries:
        match entry:
            case {"type": "function_call"}:
                turns.append(("assistant", ""))
            case {"type": "function_call_output", "output": output}:
                turns.append(("result", _plain(output)))
            case {"role": "tool", "content": content}:
                turns.append(("result", content))
            case {"role": "user" | "assistant" as role, "content": content}:
                turns.append((role, _plain(content)))
            case _:
                pass
    return [turn for turn in turns if not turn[1].startswith("<system-context>")]


def _claude_turns(role: str, blocks: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    turns: list[tuple[str, str]] = []
    for block in blocks:
        if block["type"] == "tool_result":
            turns.append(("result", _plain(block.get("content", ""))))
        elif not block.get("text", "").startswith("<system-context>"):
            turns.append((role, block.get("text", "")))
    return turns


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


if __name__ == "__main__":
    with running_provider(from_json(Path(sys.argv[1]).read_text()), int(sys.argv[2])) as running:
        sys.stdout.write(running.url + "\n")
        sys.stdout.flush()
        threading.Event().wait()


def provider_fixture(*, scope: Literal["session", "module"] = "session"):
    """The fixture of a provider whose script each test replaces."""

    @pytest.fixture(scope=scope)
    def provider() -> Iterator[ProviderServer]:
        with running_provider(by_position(says("Hello."))) as running:
            yield running

    return provider
