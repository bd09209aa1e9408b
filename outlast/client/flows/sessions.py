"""Sessions: begin them, send messages, follow, wait for and cancel turns, read the conversation."""

import secrets
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from pydantic import JsonValue

from outlast.client.contracts.events import Event
from outlast.client.contracts.sessions import Message, MessagePage, Session, SessionEntry, SessionPage, Turn
from outlast.client.errors import Conflict, NotFound, WaitTimedOut
from outlast.client.flows.commands import Emitting, Flow, HttpRequest, Item, Params, Pause
from outlast.client.flows.events import follow
from outlast.client.flows.requests import Body, MessageOptions, SessionOptions, message_body, session_body
from outlast.client.flows.server import Attempts, Server, request
from outlast.client.flows.tasks import LONGEST_WAIT_SECONDS, PAGE_SIZE
from outlast.client.problems import document, parsed


def create(server: Server, options: SessionOptions) -> Flow[Session]:
    """Begin a session, unless one with its id exists."""
    body = session_body(options.get("session_id") or f"s-{secrets.token_hex(6)}", options)
    return parsed(Session, (yield from request(server, HttpRequest("POST", "/v1/sessions", body=body))), server.url)


def get(server: Server, session_id: str) -> Flow[Session]:
    """A session as it is now."""
    return parsed(Session, (yield from request(server, HttpRequest("GET", _path(session_id)))), server.url)


def send(server: Server, session_id: str, message: str | Sequence[Body] | None, options: MessageOptions) -> Flow[Turn]:
    """Send a message; gives the turn that answers it, as it has begun."""
    body = message_body(message, options.get("message_id") or f"m-{secrets.token_hex(8)}", options)
    wanted = HttpRequest("POST", f"{_path(session_id)}/messages", params=(("wait", "0"),), body=body)
    return parsed(Turn, (yield from request(server, wanted)), server.url)


def turn(server: Server, session_id: str, turn_id: str, wait_seconds: float) -> Flow[Turn]:
    """A turn, after waiting for its end at most `wait_seconds`."""
    deadline = time.monotonic() + wait_seconds
    while True:
        began = time.monotonic()
        found = yield from _turn_once(server, session_id, turn_id, min(deadline - began, LONGEST_WAIT_SECONDS))
        now = time.monotonic()
        if not found.is_running or now >= deadline:
            return found
        if now - began < 1:  # a server that does not wait as long as it is asked to
            yield Pause(min(1.0, deadline - now))


def wait(server: Server, session_id: str, turn_id: str, timeout_seconds: float | None) -> Flow[Turn]:
    """A turn that has ended. Raises `WaitTimedOut`."""
    limit = float("inf") if timeout_seconds is None else timeout_seconds
    found = yield from turn(server, session_id, turn_id, limit)
    if found.is_running:
        raise WaitTimedOut(f"Turn {turn_id} still runs after {timeout_seconds:g} s.", hint="It goes on.")
    return found


def cancel(server: Server, session_id: str, turn_id: str) -> Flow[Turn]:
    """Stop a turn, its tools and their runs. When an earlier attempt was lost, a turn that has ended is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        response = yield from request(
            server, HttpRequest("POST", f"{_turn_path(session_id, turn_id)}/cancel"), attempts
        )
    except Conflict:
        if not attempts.may_have_arrived:
            raise
        return (yield from turn(server, session_id, turn_id, 0))
    return parsed(Turn, response, server.url)


def conversation(server: Server, session_id: str) -> Flow[tuple[Message, ...]]:
    """All messages of the turns that have ended and lead to the session's latest one, the oldest first."""
    messages, token = list[Message](), None
    while True:
        found = yield from messages_page(server, session_id, PAGE_SIZE, token)
        messages = [*found.messages, *messages]
        token = found.next_page_token
        if token is None:
            return tuple(messages)


def messages_page(server: Server, session_id: str, page_size: int, page_token: str | None) -> Flow[MessagePage]:
    """One page of messages: the latest, or those before the page whose token it is."""
    params = _page_params(page_size, page_token)
    response = yield from request(server, HttpRequest("GET", f"{_path(session_id)}/messages", params=params))
    return parsed(MessagePage, response, server.url)


def listed(server: Server, limit: int | None) -> Emitting[SessionEntry]:
    """The caller's sessions, page by page as they are read, `limit` at most."""
    left, token = limit, None
    while left is None or left > 0:
        params = _page_params(min(left or PAGE_SIZE, PAGE_SIZE), token)
        response = yield from request(server, HttpRequest("GET", "/v1/sessions", params=params))
        found = parsed(SessionPage, response, server.url)
        for entry in found.sessions:
            yield Item(entry)
        left = None if left is None else left - len(found.sessions)
        token = found.next_page_token
        if token is None:
            return


def rename(server: Server, session_id: str, title: str) -> Flow[Session]:
    """Give a session another title."""
    wanted = HttpRequest("PATCH", _path(session_id), body={"title": title})
    return parsed(Session, (yield from request(server, wanted)), server.url)


def delete(server: Server, session_id: str) -> Flow[None]:
    """Delete a session. When an earlier attempt was lost, one that is gone is no error."""
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        yield from request(server, HttpRequest("DELETE", _path(session_id)), attempts)
    except NotFound:
        if not attempts.may_have_arrived:
            raise


def export(server: Server, session_id: str, outputs: bool) -> Flow[Body]:
    """A session as a document, for `import_`."""
    params: Params = (("outputs", "true"),) if outputs else ()
    wanted = HttpRequest("GET", f"{_path(session_id)}/export", params=params)
    return document((yield from request(server, wanted)), server.url)


def import_(server: Server, exported: Mapping[str, JsonValue], session_id: str | None) -> Flow[Session]:
    """Begin a session with an exported conversation. When an earlier attempt was lost, the session may be there."""
    settings = exported.get("settings")
    wanted_id = session_id or f"s-{secrets.token_hex(6)}"
    body: Body = {**exported, "settings": {**(settings if isinstance(settings, dict) else {}), "sessionId": wanted_id}}
    attempts = Attempts(server, server.policy.request_seconds)
    try:
        response = yield from request(server, HttpRequest("POST", "/v1/sessions/import", body=body), attempts)
    except Conflict:
        if not attempts.may_have_arrived:
            raise
        return (yield from get(server, wanted_id))
    return parsed(Session, response, server.url)


def turn_events(server: Server, session_id: str, turn_id: str, after: str | None) -> Emitting[Event]:
    """The events of a turn to its end."""

    def has_ended() -> Flow[bool]:
        # The event `finish` ends it; without that one the stream was cut.
        yield from ()
        return False

    path = f"{_turn_path(session_id, turn_id)}/events"
    return follow(server, path, after=after, is_last=lambda event: event.name == "finish", has_ended=has_ended)


def events(server: Server, session_id: str, after: str | None) -> Emitting[Event]:
    """The events of a session until it ends."""

    def has_ended() -> Flow[bool]:
        # The server says so, with 204 to a request that resumes.
        yield from ()
        return False

    path = f"{_path(session_id)}/events"
    return follow(server, path, after=after, is_last=lambda _: False, has_ended=has_ended)


def _page_params(page_size: int, page_token: str | None) -> Params:
    token: Params = (("page_token", page_token),) if page_token else ()
    return (("page_size", str(page_size)), *token)


def _turn_once(server: Server, session_id: str, turn_id: str, wait_seconds: float) -> Flow[Turn]:
    wait = max(wait_seconds, 0)
    params: Params = (("wait", f"{wait:g}"),) if wait > 0 else ()
    wanted = HttpRequest("GET", _turn_path(session_id, turn_id), params=params, timeout_seconds=30 + wait)
    patience = server.policy.wait_seconds if wait > 0 else server.policy.request_seconds
    return parsed(Turn, (yield from request(server, wanted, Attempts(server, patience))), server.url)


def _path(session_id: str) -> str:
    return f"/v1/sessions/{quote(session_id, safe='')}"


def _turn_path(session_id: str, turn_id: str) -> str:
    return f"{_path(session_id)}/turns/{quote(turn_id, safe='')}"
