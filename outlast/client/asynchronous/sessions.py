"""`client.sessions` of `AsyncClient`."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from pydantic import JsonValue

from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.contracts.events import Event
from outlast.client.contracts.sessions import Message, MessagePage, Session, SessionEntry, Turn
from outlast.client.flows import sessions
from outlast.client.flows.requests import Body, MessageOptions, SessionOptions
from outlast.client.flows.server import Server


class AsyncSessions:
    """Conversations with a model that works with Outlast's tools. Every answer of it is a durable turn."""

    def __init__(self, server: Server, transport: AsyncTransport) -> None:
        self._server = server
        self._transport = transport

    async def create(self, **options: Unpack[SessionOptions]) -> Session:
        """Begin a session. Its tools are fixed now. A session with this id has to have the same settings."""
        return await self._transport.run(sessions.create(self._server, options))

    async def get(self, session_id: str) -> Session:
        """Return a session: its model and tools, what it has used, its latest turns."""
        return await self._transport.run(sessions.get(self._server, session_id))

    async def send(
        self, session_id: str, message: str | Sequence[Body] | None = None, **options: Unpack[MessageOptions]
    ) -> Turn:
        """Send a message (text, or parts as the REST API takes them) and return the turn that answers it, at once.

        With `retry_of` and without a message, the message before that answer is answered again.
        """
        return await self._transport.run(sessions.send(self._server, session_id, message, options))

    async def turn(self, session_id: str, turn_id: str, *, wait_seconds: float = 0) -> Turn:
        """Return a turn, after waiting for its end at most `wait_seconds`."""
        return await self._transport.run(sessions.turn(self._server, session_id, turn_id, wait_seconds))

    async def wait(self, session_id: str, turn_id: str, *, timeout_seconds: float | None = None) -> Turn:
        """Wait for the end of a turn, also across restarts of the server. Raises `WaitTimedOut`."""
        return await self._transport.run(sessions.wait(self._server, session_id, turn_id, timeout_seconds))

    def turn_events(self, session_id: str, turn_id: str, *, after: str | None = None) -> AsyncStream[Event]:
        """Iterate over a turn's events, or those after the one with id `after`, to its end."""
        return self._transport.stream(sessions.turn_events(self._server, session_id, turn_id, after))

    def events(self, session_id: str, *, after: str | None = None) -> AsyncStream[Event]:
        """Iterate over a session's events until it ends: completed tasks, refused calls, updates and reactions."""
        return self._transport.stream(sessions.events(self._server, session_id, after))

    async def cancel(self, session_id: str, turn_id: str) -> Turn:
        """Stop a turn, its tools and their runs."""
        return await self._transport.run(sessions.cancel(self._server, session_id, turn_id))

    async def conversation(self, session_id: str) -> tuple[Message, ...]:
        """Return all messages up to the latest turn that has ended, the oldest first."""
        return await self._transport.run(sessions.conversation(self._server, session_id))

    async def messages_page(
        self, session_id: str, *, page_size: int = 50, page_token: str | None = None
    ) -> MessagePage:
        """Return one page of a conversation: the latest messages, or those before the page whose token is given."""
        return await self._transport.run(sessions.messages_page(self._server, session_id, page_size, page_token))

    def list(self, *, limit: int | None = None) -> AsyncStream[SessionEntry]:
        """Iterate over your sessions, those first that began last. Pages are read as needed."""
        return self._transport.stream(sessions.listed(self._server, limit))

    async def rename(self, session_id: str, title: str) -> Session:
        """Give a session another title."""
        return await self._transport.run(sessions.rename(self._server, session_id, title))

    async def delete(self, session_id: str) -> None:
        """Delete a session and the stored outputs of its calls. Raises `Conflict` while a turn runs."""
        return await self._transport.run(sessions.delete(self._server, session_id))

    async def export(self, session_id: str, *, outputs: bool = False) -> dict[str, JsonValue]:
        """Return a session as a JSON document: its settings, and the turns that lead to its latest one.

        With `outputs`, also the stored outputs that they refer to; `left_out` names those that are not in it, and why.
        """
        return await self._transport.run(sessions.export(self._server, session_id, outputs))

    async def import_(self, exported: Mapping[str, JsonValue], *, session_id: str | None = None) -> Session:
        """Begin a session with an exported conversation. Raises `Conflict` when the named one has a conversation."""
        return await self._transport.run(sessions.import_(self._server, exported, session_id))
