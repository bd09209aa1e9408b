# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""`client.sessions` of `Client`."""

import time
from collections.abc import Mapping, Sequence
from typing import Unpack

from pydantic import JsonValue

from outlast.client.blocking.concurrency import sleep
from outlast.client.blocking.transport import Stream, Transport, follow
from outlast.client.errors import Conflict
from outlast.client.http import HttpRequest, path, query
from outlast.client.requests import PAGE_SIZE, import_body, message_body, session_body, timed_out, waiting
from outlast.client.retries import document
from outlast.contracts.answers import Message, MessagePage, Turn
from outlast.contracts.options import Body, MessageOptions, SessionOptions
from outlast.contracts.sessions import Session, SessionEntry, SessionPage
from outlast.contracts.tasks import Event


class Sessions:
    """Conversations with a model that works with Outlast's tools. Every answer of it is a durable turn."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, **options: Unpack[SessionOptions]) -> Session:
        """Create a session, unless one with its id exists, which must have the same settings. Its tools are fixed
        now.
        """
        return self._transport.fetch(Session, HttpRequest("POST", path("sessions"), body=session_body(options)))

    def get(self, session_id: str) -> Session:
        """Return a session: its model and tools, its usage, its latest turns."""
        return self._transport.fetch(Session, HttpRequest("GET", path("sessions", session_id)))

    def send(
        self, session_id: str, message: str | Sequence[Body] | None = None, **options: Unpack[MessageOptions]
    ) -> Turn:
        """Send a message (text, or parts as the REST API takes them) and return the turn that answers it, at once.

        With `retry_of` and without a message, the message before that answer is answered again.
        """
        body = message_body(message, options)
        wanted = HttpRequest("POST", path("sessions", session_id, "messages"), query(wait=0), body=body)
        return self._transport.fetch(Turn, wanted)

    def turn(self, session_id: str, turn_id: str, *, wait_seconds: float = 0) -> Turn:
        """Return a turn, after waiting for its end at most `wait_seconds`."""
        policy = self._transport.server.policy
        deadline = time.monotonic() + wait_seconds
        while True:
            began = time.monotonic()
            wanted = waiting(path("sessions", session_id, "turns", turn_id), deadline - began)
            attempts = self._transport.attempts(policy.wait_seconds if wanted.params else policy.request_seconds)
            found = self._transport.fetch(Turn, wanted, attempts)
            now = time.monotonic()
            if not found.is_running or now >= deadline:
                return found
            if now - began < 1:  # the server does not wait as long as it was told to
                sleep(min(1.0, deadline - now))

    def wait(self, session_id: str, turn_id: str, *, timeout_seconds: float | None = None) -> Turn:
        """Wait for the end of a turn, also across restarts of the server. Raises `WaitTimedOut`."""
        limit = float("inf") if timeout_seconds is None else timeout_seconds
        found = self.turn(session_id, turn_id, wait_seconds=limit)
        if found.is_running:
            raise timed_out(f"Turn {turn_id} still runs", timeout_seconds)
        return found

    def turn_events(self, session_id: str, turn_id: str, *, after: str | None = None) -> Stream[Event]:
        """Iterate over a turn's events, or those after the one with id `after`, to its end."""
        turn_path = path("sessions", session_id, "turns", turn_id, "events")
        events = follow(self._transport, turn_path, after=after, is_last=lambda event: event.name == "finish")
        return Stream(events)

    def events(self, session_id: str, *, after: str | None = None) -> Stream[Event]:
        """Iterate over a session's events until it ends: completed tasks, refused calls, updates and reactions."""
        return Stream(follow(self._transport, path("sessions", session_id, "events"), after=after))

    def cancel(self, session_id: str, turn_id: str) -> Turn:
        """Stop a turn, its tools and their runs."""
        attempts = self._transport.attempts()
        wanted = HttpRequest("POST", path("sessions", session_id, "turns", turn_id, "cancel"))
        try:
            return self._transport.fetch(Turn, wanted, attempts)
        except Conflict:  # the lost answer to an earlier attempt may be the reason that the turn has ended
            if not attempts.may_have_arrived:
                raise
            return self.turn(session_id, turn_id)

    def conversation(self, session_id: str) -> tuple[Message, ...]:
        """Return all messages up to the latest turn that has ended, the oldest first."""
        messages: tuple[Message, ...] = ()
        token: str | None = None
        while True:
            page = self.messages_page(session_id, page_size=PAGE_SIZE, page_token=token)
            messages = (*page.messages, *messages)
            token = page.next_page_token
            if token is None:
                return messages

    def messages_page(self, session_id: str, *, page_size: int = 50, page_token: str | None = None) -> MessagePage:
        """Return one page of a conversation: the latest messages, or those before the page whose token is given."""
        params = query(page_size=page_size, page_token=page_token)
        wanted = HttpRequest("GET", path("sessions", session_id, "messages"), params)
        return self._transport.fetch(MessagePage, wanted)

    def list(self, *, limit: int | None = None) -> Stream[SessionEntry]:
        """Iterate over your sessions, the latest first. Pages are read as needed."""
        return self._transport.listed(
            SessionPage,
            lambda size, token: HttpRequest("GET", path("sessions"), query(page_size=size, page_token=token)),
            lambda page: (page.sessions, page.next_page_token),
            limit=limit,
            page_size=PAGE_SIZE,
        )

    def rename(self, session_id: str, title: str) -> Session:
        """Change the title of a session."""
        wanted = HttpRequest("PATCH", path("sessions", session_id), body={"title": title})
        return self._transport.fetch(Session, wanted)

    def delete(self, session_id: str) -> None:
        """Delete a session and the stored outputs of its calls. Raises `Conflict` while a turn runs."""
        self._transport.delete(path("sessions", session_id))

    def export(self, session_id: str, *, outputs: bool = False) -> dict[str, JsonValue]:
        """Return a session as a JSON document: its settings, and the turns that lead to its latest one.

        With `outputs`, also the stored outputs that they refer to; `left_out` names those that are missing, and why.
        """
        wanted = HttpRequest("GET", path("sessions", session_id, "export"), query(outputs=outputs or None))
        return document(self._transport.send(wanted), self._transport.server.url)

    def import_(self, exported: Mapping[str, JsonValue], *, session_id: str | None = None) -> Session:
        """Create a session with an exported conversation. Raises `Conflict` when the named one has a conversation."""
        body, new_id = import_body(exported, session_id)
        attempts = self._transport.attempts()
        try:
            return self._transport.fetch(Session, HttpRequest("POST", path("sessions", "import"), body=body), attempts)
        except Conflict:  # an earlier attempt, whose answer was lost, may have created it
            if not attempts.may_have_arrived:
                raise
            return self.get(new_id)
