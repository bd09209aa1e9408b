"""The areas of `AsyncClient`, each of which is loaded when it is first used: a program needs few of them."""

from functools import cached_property
from typing import TYPE_CHECKING

from outlast.client.flows.server import Server

if TYPE_CHECKING:
    from outlast.client.asynchronous.batches import AsyncBatches
    from outlast.client.asynchronous.outputs import AsyncOutputs
    from outlast.client.asynchronous.saved_calls import AsyncSavedCalls
    from outlast.client.asynchronous.schedules import AsyncSchedules
    from outlast.client.asynchronous.sessions import AsyncSessions
    from outlast.client.asynchronous.transport import AsyncTransport
    from outlast.client.asynchronous.webhooks import AsyncWebhooks


class AsyncAreas:
    """What a client offers beside tasks."""

    _server: Server
    _transport: "AsyncTransport"

    @cached_property
    def batches(self) -> "AsyncBatches":
        """One tool for many inputs."""
        from outlast.client.asynchronous.batches import AsyncBatches  # noqa: PLC0415

        return AsyncBatches(self._server, self._transport)

    @cached_property
    def outputs(self) -> "AsyncOutputs":
        """Stored outputs, by their locators."""
        from outlast.client.asynchronous.outputs import AsyncOutputs  # noqa: PLC0415

        return AsyncOutputs(self._server, self._transport)

    @cached_property
    def saved_calls(self) -> "AsyncSavedCalls":
        """A tool and its input under a name."""
        from outlast.client.asynchronous.saved_calls import AsyncSavedCalls  # noqa: PLC0415

        return AsyncSavedCalls(self._server, self._transport)

    @cached_property
    def schedules(self) -> "AsyncSchedules":
        """Calls and batches that are started when they are due."""
        from outlast.client.asynchronous.schedules import AsyncSchedules  # noqa: PLC0415

        return AsyncSchedules(self._server, self._transport)

    @cached_property
    def sessions(self) -> "AsyncSessions":
        """Conversations with a model that works with Outlast's tools."""
        from outlast.client.asynchronous.sessions import AsyncSessions  # noqa: PLC0415

        return AsyncSessions(self._server, self._transport)

    @cached_property
    def webhooks(self) -> "AsyncWebhooks":
        """Addresses that hear of what your tasks and batches do."""
        from outlast.client.asynchronous.webhooks import AsyncWebhooks  # noqa: PLC0415

        return AsyncWebhooks(self._server, self._transport)
