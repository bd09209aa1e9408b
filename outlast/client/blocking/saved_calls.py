"""`client.saved_calls`."""

from collections.abc import Mapping
from typing import Unpack

from pydantic import JsonValue

from outlast.client.blocking.transport import Transport
from outlast.client.contracts.schedules import SavedCall
from outlast.client.contracts.tasks import Task, TaskAnswer
from outlast.client.flows import saved_calls
from outlast.client.flows.requests import CallOptions
from outlast.client.flows.server import Server


class SavedCalls:
    """A tool and its input under a name."""

    def __init__(self, server: Server, transport: Transport) -> None:
        self._server = server
        self._transport = transport

    def save(
        self,
        name: str,
        tool: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        note: str | None = None,
        **options: Unpack[CallOptions],
    ) -> SavedCall:
        """Keep a call of `tool` (or of an Actor, as `user/name`) under a name, in place of an earlier one."""
        body = saved_calls.saved_body(tool, arguments, note, options)
        return self._transport.run(saved_calls.save(self._server, name, body))

    def get(self, name: str) -> SavedCall:
        """Return a saved call; secrets in it are masked."""
        return self._transport.run(saved_calls.get(self._server, name))

    def list(self) -> tuple[SavedCall, ...]:
        """Return your saved calls, by name."""
        return self._transport.run(saved_calls.listed(self._server))

    def delete(self, name: str) -> None:
        """Delete a saved call. Schedules of it have nothing to start from then on."""
        self._transport.run(saved_calls.delete(self._server, name))

    def start(
        self, name: str, arguments: Mapping[str, JsonValue] | None = None, *, idempotency_key: str | None = None
    ) -> Task:
        """Start a saved call, with `arguments` over its own, and return at once."""
        return self._transport.run(saved_calls.start(self._server, name, arguments, idempotency_key))

    def call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        timeout_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> TaskAnswer:
        """Start a saved call, with `arguments` over its own, and wait for its answer. Raises `TaskFailed`,
        `WaitTimedOut`.
        """
        flow = saved_calls.call(self._server, name, arguments, idempotency_key, timeout_seconds)
        return self._transport.run(flow)
