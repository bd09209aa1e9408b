"""The activity that calls a model: one step of a conversation, streamed while the model writes. Around the call it
applies request hooks, checks and books the caller's spending, and stores the messages of the step.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from opentelemetry.trace import Span
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.conversations.blocks import ConversationBlocks
from outlast.activities.conversations.contracts import Block, ConversationRef
from outlast.activities.failures.classify import ToolFailure, as_activity_failure
from outlast.activities.failures.exceptions import NOT_CONFIGURED, REFUSED_HERE, UNKNOWN_PROVIDER, ProviderError
from outlast.activities.heartbeat import heartbeating
from outlast.activities.llm import contracts as llm
from outlast.activities.llm.providers import models
from outlast.activities.llm.providers.answers import Listener, Provider, with_words
from outlast.activities.llm.providers.requests import with_portable_calls
from outlast.activities.llm.refused_prompts import RefusedParts, check_window, is_too_long, simpler_requests
from outlast.activities.llm.streaming import DeltaSink, OpenSink, WorkflowDeltas
from outlast.activities.spans import client_span
from outlast.activities.spending.contracts import Settlement, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers, exceeded_cap, resets, rest_of

CALL_MODEL_ATTEMPT_TIMEOUT = timedelta(minutes=20)
CALL_MODEL_HEARTBEAT_TIMEOUT = timedelta(seconds=20)
CALL_MODEL_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
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
        prices: Mapping[str, models.Price] | None = None,
        open_sink: OpenSink = WorkflowDeltas,
        hooks: Sequence[llm.ChatParamsHook] = (),
        limits: Mapping[str, models.ModelLimits] | None = None,
        ledgers: Ledgers | None = None,
    ) -> None:
        """Take `providers` by `provider_id`, `prices` and the operator's `limits` by `provider/model`. `open_sink`
        opens the sink of streamed text; `hooks` change the parameters of every call, in order. Without `conversations`
        every call has to contain all messages. Costs are booked in `ledgers`.
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
    async def call_model(self, request: llm.CallModelInput) -> llm.ModelStep:
        """Call the model for one step, and publish its text while it writes.

        New messages are stored at the same time if the request asks for that: see `ModelStep.conversation`.
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
                    return llm.ModelStep(finish_reason="cap", warnings=(over,))
                whole = await self._whole(request)
                listener = _PublishingListener(request, activity.info().attempt, sink)
                async with kept_meanwhile(self._conversations, request) as kept:
                    step = await self._answered(provider, whole, listener)
                    return (
                        step
                        if step.finish_reason == "too_long"
                        else step.model_copy(update={"conversation": await kept()})
                    )

    async def ask(self, request: llm.CallModelInput) -> llm.ModelStep:
        """Call the model for another activity; its text is not published. Raises `ProviderError`."""
        provider = self._provider(request.provider_id)
        return await self._timed(provider, checked_request(request, self._hooks, self._limits), _DiscardingListener())

    async def _answered(self, provider: Provider, request: llm.CallModelInput, listener: Listener) -> llm.ModelStep:
        """The answer; where the turn can shorten the conversation, `too_long` is one, counted here or refused there."""
        try:
            if request.may_be_too_long:
                check_window(request)
            return await self._timed(provider, request, listener)
        except ProviderError as error:
            if not request.may_be_too_long or not is_too_long(error):
                raise
            return llm.ModelStep(finish_reason="too_long", warnings=(error.message,))

    async def _timed(self, provider: Provider, request: llm.CallModelInput, listener: Listener) -> llm.ModelStep:
        began = time.monotonic()
        fitting = request.model_copy(update={"messages": with_portable_calls(request.messages)})
        with model_call(request) as span:
            step = await self._accepted(provider, self._refused.without_known(fitting), listener)
            model_answered(span, step)
        seconds = time.monotonic() - began
        step = with_words(request, step)
        self._warn_once(step.warnings)
        cost = models.cost_usd(self._prices, request.provider_id, request.model_id, step.usage)
        if self._ledgers is not None:
            await book(self._ledgers, request, cost)
        return step.model_copy(update={"cost_usd": cost, "seconds": seconds})

    async def _accepted(self, provider: Provider, request: llm.CallModelInput, listener: Listener) -> llm.ModelStep:
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

    async def used_up(self, request: llm.CallModelInput) -> str | None:
        """Return the spending limit that leaves nothing for the call. A model without a price has no known cost."""
        has_price = f"{request.provider_id}/{request.model_id}" in self._prices
        return await used_up(self._ledgers, request) if self._ledgers is not None and has_price else None

    async def _whole(self, request: llm.CallModelInput) -> llm.CallModelInput:
        """Return the call with all that the provider is sent. Raises `ConversationDamaged`."""
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
        if provider_id in models.MATRIX:
            missing = _CONFIGURED_BY[provider_id]
            raise ProviderError(provider_id, f"not configured: set {missing} for the worker", kinds=(NOT_CONFIGURED,))
        known = ", ".join(models.MATRIX)
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

    def __init__(self, request: llm.CallModelInput, attempt: int, sink: DeltaSink) -> None:
        self._request, self._attempt, self._sink = request, attempt, sink
        self._index = 0

    def text(self, piece: str) -> None:
        if piece:
            self._sink.publish(llm.TextDelta.model_validate({**self._place(), "text": piece}))

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        if piece:
            call = {"call_id": call_id, "tool": tool, "text": piece}
            self._sink.publish(llm.ArgumentsDelta.model_validate({**self._place(), **call}))

    def _place(self) -> dict[str, object]:
        request, index = self._request, self._index
        self._index += 1
        return {"turn_id": request.turn_id, "step": request.step, "attempt": self._attempt, "index": index}


async def used_up(ledgers: Ledgers, request: llm.CallModelInput) -> str | None:
    """The spending limit that leaves nothing, in words; None if the call may begin. Nothing is reserved: the cost
    is known when it has been answered.
    """
    if request.caps is None:
        return None
    refusal = await exceeded_cap(ledgers, _spend(request), request.caller, request.caps)
    return None if refusal is None else f"{rest_of(refusal)}.{resets(refusal)}"


async def book(ledgers: Ledgers, request: llm.CallModelInput, usd: float | None) -> None:
    """Book the cost of an answered call. Each call of a provider is paid, so each is a separate entry."""
    if usd:
        await ledgers.settle(request.caller, Settlement(spend=_spend(request), cost_usd=exact_usd(usd)))


def _spend(request: llm.CallModelInput) -> Spend:
    return Spend(
        entry_id=uuid.uuid4().hex,
        kind="model",
        model=f"{request.provider_id}/{request.model_id}",
        session_id=request.session_id,
        task_id=request.turn_id,
    )


_PATIENCE_SECONDS = 5.0
"""The time that an answer, which was paid for, waits for a store that is slower than the model."""

Kept = Callable[[], Awaitable[ConversationRef | None]]
"""Gives the conversation with the messages; None when they are not kept, and have to be sent again."""


@asynccontextmanager
async def kept_meanwhile(blocks: ConversationBlocks | None, request: llm.CallModelInput) -> AsyncGenerator[Kept]:
    """Write the messages of `request` as `request.keep` specifies, until the end of the block."""
    writing = asyncio.create_task(_kept(blocks, request))

    async def kept() -> ConversationRef | None:
        await asyncio.wait({writing}, timeout=_PATIENCE_SECONDS)
        return writing.result() if writing.done() else None

    try:
        yield kept
    finally:
        # After a failure of the model, nothing awaits this task: without this, asyncio would log their error.
        writing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        writing.cancel()


async def _kept(blocks: ConversationBlocks | None, request: llm.CallModelInput) -> ConversationRef | None:
    if blocks is None or request.keep is None:
        return None
    block = Block(
        messages=request.messages,
        about={"turn_id": request.turn_id},
        continues=request.keep.continues,
        repeated=request.keep.repeated,
    )
    try:
        return await blocks.append(request.owner, request.conversation, block)
    except (OSError, ToolFailure) as error:
        # Nothing is lost: they stay in the turn's history, and go to the store with the next ones.
        log.warning("Step %d of turn %s could not be stored yet: %s", request.step, request.turn_id, error)
        return None


CHAT_PARAMS_HOOKS = "CHAT_PARAMS_HOOKS"
"""Attribute of a tools module (OUTLAST_TOOLS_FROM): functions from `ChatParams` to `ChatParams`."""


def checked_request(
    request: llm.CallModelInput, hooks: Sequence[llm.ChatParamsHook], limits: Mapping[str, models.ModelLimits]
) -> llm.CallModelInput:
    """Return the request after all hooks, in their order; `limits` are the operator's, by `provider/model`. Raises
    `ProviderError` when a hook fails, when the provider or the model has no such control, and when the output limit is
    more than the model can write.
    """
    if hooks:
        params = _params(request)
        for hook in hooks:
            params = _applied(hook, params, request.provider_id)
        request = request.model_copy(
            update={
                "controls": params.controls,
                "max_output_tokens": params.max_output_tokens,
                "extra": params.extra,
            }
        )
    model = models.model_of(request.provider_id, request.model_id, limits)
    refusal = models.refused_controls(
        request.provider_id, request.model_id, model, request.controls
    ) or models.refused_output_limit(request.model_id, model, request.controls, request.max_output_tokens)
    if refusal is not None:
        raise ProviderError(request.provider_id, refusal, kinds=(REFUSED_HERE,))
    return request


def _params(request: llm.CallModelInput) -> llm.ChatParams:
    return llm.ChatParams(
        caller_id=request.caller.id,
        session_id=request.session_id,
        turn_id=request.turn_id,
        step=request.step,
        provider_id=request.provider_id,
        model_id=request.model_id,
        controls=request.controls,
        max_output_tokens=request.max_output_tokens,
    )


def _applied(hook: llm.ChatParamsHook, params: llm.ChatParams, provider_id: str) -> llm.ChatParams:
    try:
        # Validated again: a hook may have changed its copy without validation.
        return llm.ChatParams.model_validate(hook(params).model_dump())
    except Exception as error:
        name = getattr(hook, "__qualname__", repr(hook))
        raise ProviderError(
            provider_id,
            f"The hook {name} of {CHAT_PARAMS_HOOKS} failed: {type(error).__name__}: {error}",
            kinds=(REFUSED_HERE,),
        ) from error


@contextmanager
def model_call(request: llm.CallModelInput) -> Generator[Span]:
    """Provide one call of a model, with all of its answer."""
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": request.provider_id,
        "gen_ai.request.model": request.model_id,
        "gen_ai.request.max_tokens": request.max_output_tokens,
        "gen_ai.conversation.id": request.session_id,
        "outlast.step": request.step,
    }
    with client_span(f"chat {request.model_id}", attributes) as span:
        yield span


def model_answered(span: Span, step: llm.ModelStep) -> None:
    """Record why a model stopped, and its tokens; those of the input include cached ones."""
    usage = step.usage
    span.set_attributes(
        {
            "gen_ai.response.finish_reasons": [step.finish_reason],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        }
    )
