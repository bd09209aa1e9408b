"""Publishes streamed text to readers: the interface, and its implementation with the calling workflow's stream."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Protocol, Self

from temporalio.contrib.workflow_streams import WorkflowStreamClient
from temporalio.service import RPCError

from outlast.activities.llm.contracts import TextDelta

DELTAS_TOPIC = "deltas"
"""Topic of `TextDelta` in the stream of a turn's workflow."""
PUBLISH_SIGNAL = "__temporal_workflow_stream_publish"
"""The signal by which a batch reaches the workflow's stream. The SDK's wire format; it has no public name for it."""
FIRST_FLUSH = timedelta(milliseconds=100)
STEADY_FLUSH = timedelta(seconds=1)
"""A flush costs the history four events (the signal and its workflow task): one second apart they stay cheap."""
_NEVER = timedelta(days=1)

log = logging.getLogger(__name__)


class DeltaSink(Protocol):
    """Receives streamed text."""

    def publish(self, delta: TextDelta) -> None:
        """Send `delta` soon. Never blocks and never fails."""
        ...


OpenSink = Callable[[], AbstractAsyncContextManager[DeltaSink]]


class WorkflowDeltas:
    """Publishes to the workflow that scheduled the current activity, in batches.

    The first batch is sent after `first`, later ones after growing pauses up to `steady`. The texts of a batch are
    joined into one delta. A batch that cannot be delivered is logged and dropped: the step's result has the whole text.
    """

    def __init__(self, *, first: timedelta = FIRST_FLUSH, steady: timedelta = STEADY_FLUSH) -> None:
        """Only inside an activity."""
        self._client = WorkflowStreamClient.from_within_activity(batch_interval=_NEVER)
        self._topic = self._client.topic(DELTAS_TOPIC, type=TextDelta)
        self._pause, self._steady = first, steady
        self._waiting: list[TextDelta] = []
        self._something_waits, self._ended = asyncio.Event(), asyncio.Event()
        self._sent = 0
        self._flusher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start sending."""
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

    def publish(self, delta: TextDelta) -> None:
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
        if self._waiting:
            text = "".join(delta.text for delta in self._waiting)
            self._topic.publish(self._waiting[0].model_copy(update={"text": text, "index": self._sent}))
            self._sent += 1
            self._waiting.clear()
        began = time.monotonic()
        try:
            await self._client.flush()
        except (RPCError, TimeoutError) as error:
            # The client keeps unsent items, and sends them with the next batch, in order.
            log.warning("Streamed text was not delivered after %.1f s: %s", time.monotonic() - began, error)
