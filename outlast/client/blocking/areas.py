"""The areas of `Client`, each of which is loaded when it is first used: a program needs few of them."""

from functools import cached_property
from typing import TYPE_CHECKING

from outlast.client.flows.server import Server

if TYPE_CHECKING:
    from outlast.client.blocking.batches import Batches
    from outlast.client.blocking.outputs import Outputs
    from outlast.client.blocking.saved_calls import SavedCalls
    from outlast.client.blocking.schedules import Schedules
    from outlast.client.blocking.sessions import Sessions
    from outlast.client.blocking.transport import Transport
    from outlast.client.blocking.webhooks import Webhooks


class Areas:
    """What a client offers beside tasks."""

    _server: Server
    _transport: "Transport"

    @cached_property
    def batches(self) -> "Batches":
        """One tool for many inputs."""
        from outlast.client.blocking.batches import Batches  # noqa: PLC0415

        return Batches(self._server, self._transport)

    @cached_property
    def outputs(self) -> "Outputs":
        """Stored outputs, by their locators."""
        from outlast.client.blocking.outputs import Outputs  # noqa: PLC0415

        return Outputs(self._server, self._transport)

    @cached_property
    def saved_calls(self) -> "SavedCalls":
        """A tool and its input under a name."""
        from outlast.client.blocking.saved_calls import SavedCalls  # noqa: PLC0415

        return SavedCalls(self._server, self._transport)

    @cached_property
    def schedules(self) -> "Schedules":
        """Calls and batches that are started when they are due."""
        from outlast.client.blocking.schedules import Schedules  # noqa: PLC0415

        return Schedules(self._server, self._transport)

    @cached_property
    def sessions(self) -> "Sessions":
        """Conversations with a model that works with Outlast's tools."""
        from outlast.client.blocking.sessions import Sessions  # noqa: PLC0415

        return Sessions(self._server, self._transport)

    @cached_property
    def webhooks(self) -> "Webhooks":
        """Addresses that hear of what your tasks and batches do."""
        from outlast.client.blocking.webhooks import Webhooks  # noqa: PLC0415

        return Webhooks(self._server, self._transport)
