"""The activity that calls a model: one step of a conversation, streamed while the model writes."""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.conversations.conversation_blocks import ConversationBlocks
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.failures.provider_error import NOT_CONFIGURED, UNKNOWN_PROVIDER, ProviderError
from outlast.activities.heartbeat import heartbeating
from outlast.activities.llm.contracts import ArgumentsDelta, CallModelInput, ModelStep, TextDelta
from outlast.activities.llm.controls import ChatParamsHook
from outlast.activities.llm.keeping import kept_meanwhile
from outlast.activities.llm.providers.call_ids import with_portable_calls
from outlast.activities.llm.providers.capabilities import MATRIX
from outlast.activities.llm.providers.models import ModelLimits
from outlast.activities.llm.providers.parsing import with_words
from outlast.activities.llm.providers.prices import Price, cost_usd
from outlast.activities.llm.providers.provider import Listener, Provider
from outlast.activities.llm.refused_parts import RefusedParts, simpler_requests
from outlast.activities.llm.request_hooks import checked_request
from outlast.activities.llm.spending import book, used_up
from outlast.activities.llm.streaming import DeltaSink, OpenSink, WorkflowDeltas
from outlast.activities.llm.windows import check_window, is_too_long
from outlast.activities.spans import model_answered, model_call
from outlast.activities.spending.ledger import Ledgers

CALL_MODEL_ATTEMPT_TIMEOUT = timedelta(minutes=20)
CALL_MODEL_HEARTBEAT_TIMEOUT = timedelta(seconds=20)
CALL_MODEL_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2,
    maximum_interval=timedelta(minutes=1),
    maximum_attempts=8,
)
"""Permanent errors are not retried; a provider's `Retry-After` replaces the pause."""
_BEATS_PER_TIMEOUT = 10
"""A cancellation arrives with the next heartbeat, so there are many."""
_CONFIGURED_BY = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "zai": "OUTLAST_ZAI_API_KEY",
    "generic": "OUTLAST_GENERIC_BASE_URL",
}

log = logging.getLogger(__name__)


class ModelActivities:
    """Calls models of the configured providers."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        *,
        conversations: ConversationBlocks | None = None,
        prices: Mapping[str, Price] | None = None,
        open_sink: OpenSink = WorkflowDeltas,
        hooks: Sequence[ChatParamsHook] = (),
        limits: Mapping[str, ModelLimits] | None = None,
        ledgers: Ledgers | None = None,
    ) -> None:
        """`providers` by `provider_id`; `prices` and the operator's `limits` by `provider/model`; `open_sink` opens the
        sink of streamed text.

        `hooks` see and change the parameters of every call, in their order. Without
        `conversations`, for a provider alone, every call has to bring all messages itself. What calls cost is booked in
        `ledgers`.
        """
        self._providers = providers
        self._conversations = conversations
        self._prices = prices or {}
        self._open_sink = open_sink
        self._hooks = tuple(hooks)
        self._limits = limits or {}
        self._ledgers = ledgers
        self._refused = RefusedParts()
        self._warned: set[str] = set()

    @activity.defn
    async def call_model(self, request: CallModelInput) -> ModelStep:
        """Call the model for one step, and publish its text while it writes.

        Messages that are new are stored meanwhile, when the request says so: see `ModelStep.conversation`.
        Does not call it when a spending cap leaves nothing: the answer's `finish_reason` is `cap` then. A retry calls
        the model again, with a higher `attempt` in its deltas. A cancellation closes the connection.
        Fails with an `ErrorEnvelope`, which is retryable when the connection broke or the provider is overloaded.
        """
        with as_activity_failure():
            provider = self._provider(request.provider_id)
            request = checked_request(request, self._hooks, self._limits)
            async with heartbeating(1 / _BEATS_PER_TIMEOUT), self._open_sink() as sink:
                over = await self.used_up(request)
                if over is not None:
                    return ModelStep(finish_reason="cap", warnings=(over,))
                whole = await self._whole(request)
                listener = _PublishingListener(request, activity.info().attempt, sink)
                async with kept_meanwhile(self._conversations, request) as kept:
                    step = await self._answered(provider, whole, listener)
                    return (
                        step
                        if step.finish_reason == "too_long"
                        else step.model_copy(update={"conversation": await kept()})
                    )

    async def ask(self, request: CallModelInput) -> ModelStep:
        """Call the model for another activity; its text is not published. Raises `ProviderError`."""
        provider = self._provider(request.provider_id)
        return await self._timed(provider, checked_request(request, self._hooks, self._limits), _DiscardingListener())

    async def _answered(self, provider: Provider, request: CallModelInput, listener: Listener) -> ModelStep:
        """The answer; where the turn can shorten the conversation, `too_long` is one, counted here or refused there."""
        try:
            if request.may_be_too_long:
                check_window(request)
            return await self._timed(provider, request, listener)
        except ProviderError as error:
            if not request.may_be_too_long or not is_too_long(error):
                raise
            return ModelStep(finish_reason="too_long", warnings=(error.message,))

    async def _timed(self, provider: Provider, request: CallModelInput, listener: Listener) -> ModelStep:
        began = time.monotonic()
        fitting = request.model_copy(update={"messages": with_portable_calls(request.messages)})
        with model_call(request) as span:
            step = await self._accepted(provider, self._refused.without_known(fitting), listener)
            model_answered(span, step)
        seconds = time.monotonic() - began
        step = with_words(request, step)
        self._warn_once(step.warnings)
        cost = cost_usd(self._prices, request.provider_id, request.model_id, step.usage)
        if self._ledgers is not None:
            await book(self._ledgers, request, cost)
        return step.model_copy(update={"cost_usd": cost, "seconds": seconds})

    async def _accepted(self, provider: Provider, request: CallModelInput, listener: Listener) -> ModelStep:
        """The answer; without a part of the conversation where the provider refuses it. A refusal costs nothing."""
        try:
            return await provider.call(request, listener)
        except ProviderError as error:
            refusal = error
        for attempt in simpler_requests(request, refusal):
            try:
                step = await provider.call(attempt.request, listener)
            except ProviderError as error:
                if error.status != refusal.status:
                    raise
                continue
            self._refused.learn(attempt, refusal)
            return step.model_copy(update={"warnings": (*step.warnings, attempt.words)})
        raise refusal

    async def used_up(self, request: CallModelInput) -> str | None:
        """Which cap leaves nothing for the call. A model without a price costs nothing that is known."""
        has_price = f"{request.provider_id}/{request.model_id}" in self._prices
        return await used_up(self._ledgers, request) if self._ledgers is not None and has_price else None

    async def _whole(self, request: CallModelInput) -> CallModelInput:
        """The call with all that the provider is sent. Raises `ConversationDamaged`."""
        if self._conversations is None:
            return request
        changes: dict[str, object] = {}
        if request.prompt is not None:
            head = await self._conversations.prompt(request.owner, request.prompt)
            definitions = "[]" if request.without_definitions else head.definitions_json
            changes |= {"system": head.system, "definitions_json": definitions}
        if request.conversation.head is not None:
            earlier = await self._conversations.messages(request.owner, request.conversation)
            changes["messages"] = (*earlier, *request.messages)
        return request.model_copy(update=changes)

    async def close(self) -> None:
        """Close the connections to the providers."""
        for provider in self._providers.values():
            await provider.close()

    def _provider(self, provider_id: str) -> Provider:
        provider = self._providers.get(provider_id)
        if provider is not None:
            return provider
        if provider_id in MATRIX:
            missing = _CONFIGURED_BY[provider_id]
            raise ProviderError(provider_id, f"not configured: set {missing} for the worker", kinds=(NOT_CONFIGURED,))
        known = ", ".join(MATRIX)
        raise ProviderError(provider_id, f"unknown provider; use one of {known}", kinds=(UNKNOWN_PROVIDER,))

    def _warn_once(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                log.warning("A provider falls back: %s", warning)


class _DiscardingListener:
    """A `Listener` that keeps nothing: the step has the whole answer."""

    def text(self, piece: str) -> None:
        pass

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        pass


class _PublishingListener:
    """A `Listener` that numbers the pieces of one attempt."""

    def __init__(self, request: CallModelInput, attempt: int, sink: DeltaSink) -> None:
        self._request, self._attempt, self._sink = request, attempt, sink
        self._index = 0

    def text(self, piece: str) -> None:
        if piece:
            self._sink.publish(TextDelta.model_validate({**self._place(), "text": piece}))

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        if piece:
            self._sink.publish(
                ArgumentsDelta.model_validate({**self._place(), "call_id": call_id, "tool": tool, "text": piece})
            )

    def _place(self) -> dict[str, object]:
        request, index = self._request, self._index
        self._index += 1
        return {"turn_id": request.turn_id, "step": request.step, "attempt": self._attempt, "index": index}
