"""The call that all providers share: send the request, read the stream, close the connection."""

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.llm.contracts import CallModelInput, ModelStep
from outlast.activities.llm.providers.failures import (
    error_in,
    provider_failures,
    reported_error,
    stream_ended_early,
)
from outlast.activities.llm.providers.parsing import Listener
from outlast.activities.llm.providers.stream_events import StreamEvents
from outlast.activities.llm.providers.tool_definitions import ToolPlan


class Answer(Protocol):
    """An answer received so far. Its pieces are passed to a listener as they come."""

    error: JsonValue
    """An error that the answer reports."""

    @property
    def is_whole(self) -> bool:
        """True once the answer is complete: later failures do not count, and only token counts may follow."""
        ...

    def add(self, event: JsonObject) -> bool:
        """Add an event of the stream. Returns True if it was the last."""
        ...

    def end(self, *, is_done: bool) -> bool:
        """Handle the end of the stream, which is marked if `is_done`. Returns True if nothing is missing."""
        ...


AnswerT = TypeVar("AnswerT", bound=Answer)


class StreamedProvider(ABC, Generic[AnswerT]):
    """A `Provider` with the client of an SDK. The client's own retries are off: Temporal retries."""

    path: str

    def __init__(self, provider_id: str, client: AsyncOpenAI | AsyncAnthropic) -> None:
        self.id = provider_id
        self._client = client.with_options(max_retries=0)

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """See `Provider`."""
        body, plan = self.request(request)
        answer = self.answer(request, listener)
        with provider_failures(self.id, self._client.api_key or ""):
            await self._read(body, answer)
        return self.step(request, answer, plan)

    async def close(self) -> None:
        """See `Provider`."""
        await self._client.close()

    @abstractmethod
    def request(self, request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
        """Return the body of the request."""

    @abstractmethod
    def answer(self, request: CallModelInput, listener: Listener) -> AnswerT:
        """Return an empty answer."""

    @abstractmethod
    def step(self, request: CallModelInput, answer: AnswerT, plan: ToolPlan) -> ModelStep:
        """Return the complete answer. Raises `ProviderError` if it reports a failure."""

    async def _read(self, body: JsonObject, answer: AnswerT) -> None:
        async with StreamEvents(await self._response(body)) as events:
            async for event in events:
                was_whole = answer.is_whole
                is_last = answer.add(event)
                error = error_in(event) or answer.error
                if error is not None and not was_whole:
                    raise reported_error(self.id, error)
                if is_last:
                    break
                if answer.is_whole:
                    events.settle()
        if not answer.end(is_done=events.is_done):
            raise stream_ended_early(self.id)

    async def _response(self, body: JsonObject) -> httpx2.Response:
        """Send the request. The SDK's own reader is not used: it fails on what many servers send."""
        if isinstance(self._client, AsyncAnthropic):
            return await self._client.post(self.path, body=body, cast_to=httpx2.Response, stream=True)
        return await self._client.post(
            self.path,
            body=body,
            cast_to=httpx2.Response,
            stream=True,
            options={"security": {"bearer_auth": True}},
        )
