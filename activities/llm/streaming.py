"""Publishes streamed text to readers: the interface, and its implementation with the calling workflow's stream."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from itertools import groupby
from types import TracebackType
from typing import Protocol, Self

from temporalio.contrib.workflow_streams import WorkflowStreamClient
from temporalio.service import RPCError

from outlast.activities.llm.contracts import ArgumentsDelta, Delta, TextDelta

DELTAS_TOPIC = "deltas"
"""Topic of `TextDelta` in the stream of a turn's workflow."""
ARGUMENTS_TOPIC = "arguments"
"""Topic of `ArgumentsDelta` in the stream of a turn's workflow."""
PUBLISH_SIGNAL = "__temporal_workflow_stream_publish"
"""The signal by which a batch reaches the workflow's stream. The SDK's wire format; it has no public name for it."""
FIRST_FLUSH = timedelta(milliseconds=100)
STEADY_FLUSH = timedelta(seconds=0.2)
"""A flush costs the history four events (the signal and its workflow task), whatever it holds."""
_NEVER = timedelta(days=1)

log = logging.getLogger(__name__)


class DeltaSink(Protocol):
    """Receives streamed text."""

    def publish(self, delta: Delta) -> None:
        """Send `delta` soon. Never blocks and never fails."""


OpenSink = Callable[[], AbstractAsyncContextManager[DeltaSink]]


class WorkflowDeltas:
    """Publishes to the workflow that scheduled the current activity, in batches: the first after `first`, later ones
    after growing pauses up to `steady`. Consecutive texts, and arguments of one call, are joined. A batch that cannot
    be delivered is logged and dropped: the step's result has the whole answer.
    """

    def __init__(self, *, first: timedelta = FIRST_FLUSH, steady: timedelta = STEADY_FLUSH) -> None:
        self._client = WorkflowStreamClient.from_within_activity(batch_interval=_NEVER)
        self._texts = self._client.topic(DELTAS_TOPIC, type=TextDelta)
        self._arguments = self._client.topic(ARGUMENTS_TOPIC, type=ArgumentsDelta)
        self._pause, self._steady = first, steady
        self._waiting: list[Delta] = []
        self._something_waits, self._ended = asyncio.Event(), asyncio.Event()
        self._sent = 0
        self._flusher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._flusher = asyncio.create_task(self._flush_until_end())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send the rest; after a failure drop it, as readers drop the text of a failed attempt."""
        if kind is not None:
            self._waiting.clear()
        self._ended.set()
        self._something_waits.set()
        if self._flusher is not None:
            await self._flusher

    def publish(self, delta: Delta) -> None:
        """See `DeltaSink`."""
        self._waiting.append(delta)
        self._something_waits.set()

    async def _flush_until_end(self) -> None:
        while not self._ended.is_set():
            await self._something_waits.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._pause.total_seconds())
            self._pause = min(self._pause * 2, self._steady)
            await self._flush()
        await self._flush()

    async def _flush(self) -> None:
        self._something_waits.clear()
        for joined in _joined(self._waiting):
            numbered = joined.model_copy(update={"index": self._sent})
            if isinstance(numbered, TextDelta):
                self._texts.publish(numbered)
            else:
                self._arguments.publish(numbered)
            self._sent += 1
        self._waiting.clear()
        began = time.monotonic()
        try:
            await self._client.flush()
        except (RPCError, TimeoutError) as error:
            # The client keeps unsent items, and sends them with the next batch, in order.
            log.warning("Streamed text was not delivered after %.1f s: %s", time.monotonic() - began, error)


def _joined(deltas: Sequence[Delta]) -> Iterator[Delta]:
    """`deltas`, each run of texts and each run of one call's arguments as one."""
    for _, run in groupby(deltas, key=lambda delta: delta.call_id if isinstance(delta, ArgumentsDelta) else None):
        pieces = list(run)
        yield pieces[0].model_copy(update={"text": "".join(delta.text for delta in pieces)})
