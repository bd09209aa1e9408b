"""Requests of a connection that have no response yet, in both directions, and who may send messages that refer to them.

A response or a notification of JSON-RPC has no handler that checks scopes: the SDK matches it with a request by its id
and nothing else. So each is held here to the scope of the request that it refers to, when it arrives, and to the
credential of its connection. One that refers to no open request is dropped, as the protocol demands.
"""

import secrets
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params, progress_token_from_params
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCResponse, RequestId

from outlast.api.access.policy.contracts import Scope
from outlast.api.access.principal import Principal
from outlast.api.audit.origin import Origin
from outlast.api.mcp.connections import http_request
from outlast.api.mcp.protocol.versions import Context, session_of

Place = tuple[str, ...]
"""The connection that a message comes over, as one credential has it."""
STDIO: Place = ("stdio",)
_LARGEST_ID = 2**53 - 1
"""The largest integer that every JSON parser keeps."""
_CANCELLED, _PROGRESS = "notifications/cancelled", "notifications/progress"


@dataclass(frozen=True)
class Sender:
    """The sender of a message, as it was when the message arrived."""

    principal: Principal
    origin: Origin


@dataclass
class Question:
    """A request to the client."""

    scope: Scope
    answered_by: Sender | None = None


@dataclass
class _Connection:
    requests: dict[RequestId, list[tuple[Scope, ...]]] = field(default_factory=dict[RequestId, list[tuple[Scope, ...]]])
    questions: dict[RequestId, Question] = field(default_factory=dict[RequestId, Question])

    @property
    def is_idle(self) -> bool:
        return not self.requests and not self.questions


class OpenExchanges:
    """The open requests of every connection of this process."""

    def __init__(self) -> None:
        """None is open."""
        self._connections: defaultdict[Place, _Connection] = defaultdict(_Connection)

    @contextmanager
    def request(self, place: Place | None, request_id: RequestId | None, scopes: tuple[Scope, ...]) -> Generator[None]:
        """A request of the client that needs one of `scopes` is open while the block runs.

        `place` is None where no message can refer to it.
        """
        if place is None or request_id is None:
            yield
            return
        connection, key = self._connections[place], coerce_request_id(request_id)
        # A client may use an id twice at once: a message about it needs what both need.
        connection.requests.setdefault(key, []).append(scopes)
        try:
            yield
        finally:
            connection.requests[key].remove(scopes)
            if not connection.requests[key]:
                del connection.requests[key]
            self._forget_if_idle(place)

    @contextmanager
    def question(self, place: Place, scope: Scope) -> Generator[tuple[int, Question]]:
        """A question to the client is open while the block runs, under an id that cannot be guessed."""
        connection = self._connections[place]
        question_id, question = secrets.randbelow(_LARGEST_ID) + 1, Question(scope)
        connection.questions[question_id] = question
        try:
            yield question_id, question
        finally:
            del connection.questions[question_id]
            self._forget_if_idle(place)

    def admit(self, place: Place, sender: Sender, message: JSONRPCMessage) -> bool:
        """Whether a message goes on to its connection; one that refers to nothing open does not.

        Raises `ForbiddenScope` when the sender may not send it.
        """
        match message:
            case JSONRPCResponse() | JSONRPCError():
                return self._admit_answer(place, sender, message.id)
            case JSONRPCNotification(method=method, params=params) if method == _CANCELLED:
                cancelled = cancelled_request_id_from_params(params)
                needed = () if cancelled is None else self._requests_at(place, cancelled)
                _require_all(sender.principal, needed)
                return bool(needed)
            case JSONRPCNotification(method=method, params=params) if method == _PROGRESS:
                question = self._question_at(place, progress_token_from_params({"_meta": params}))
                if question is not None:
                    sender.principal.require(question.scope)
                return question is not None
            case _:
                return True  # Requests have handlers that check; other notifications refer to no request.

    def require_end(self, place: Place, principal: Principal) -> None:
        """Raise `ForbiddenScope` unless the principal may end all that is open on the connection."""
        found = self._connections.get(place)
        if found is not None:
            _require_all(principal, (scopes for entries in found.requests.values() for scopes in entries))
            _require_all(principal, ((question.scope,) for question in found.questions.values()))

    def _admit_answer(self, place: Place, sender: Sender, question_id: RequestId | None) -> bool:
        question = self._question_at(place, question_id)
        if question is None:
            return False
        sender.principal.require(question.scope)
        question.answered_by = sender
        return True

    def _requests_at(self, place: Place, request_id: RequestId) -> tuple[tuple[Scope, ...], ...]:
        found = self._connections.get(place)
        return tuple(found.requests.get(coerce_request_id(request_id), ())) if found is not None else ()

    def _question_at(self, place: Place, question_id: RequestId | None) -> Question | None:
        found = self._connections.get(place)
        if found is None or question_id is None:
            return None
        return found.questions.get(coerce_request_id(question_id))

    def _forget_if_idle(self, place: Place) -> None:
        if self._connections[place].is_idle:
            del self._connections[place]


def session_place(principal: Principal, session: str) -> Place:
    """A session over HTTP (2025-11-25), as this credential has it: for another one with its id, nothing is open."""
    return (principal.caller.id, principal.credential, session)


def place_of(ctx: Context, principal: Principal) -> Place | None:
    """The connection of a request; None if no later message can refer to the request (2026-07-28 over HTTP)."""
    request = http_request(ctx)
    if request is None:
        return STDIO
    session = session_of(request)
    return session_place(principal, session) if session is not None else None


def _require_all(principal: Principal, needed: Iterable[tuple[Scope, ...]]) -> None:
    """Raise `ForbiddenScope` unless the principal has one of each; an empty entry needs none."""
    for scopes in needed:
        if scopes:
            principal.require(*scopes)
