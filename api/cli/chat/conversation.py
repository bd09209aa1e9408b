"""A conversation over the REST API: its session, its messages, and what happens while one is answered."""

import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

from outlast.api.cli.errors import Unreachable
from outlast.api.cli.http.client import FOLLOW_PATIENCE_SECONDS, ApiClient, retry_after
from outlast.api.cli.http.follow import Event, event_of


class Conversation:
    """One session. Every request may be repeated without harm. Raises `CliError` for what the server refuses."""

    def __init__(self, client: ApiClient, session_id: str | None) -> None:
        """Go on with `session_id`, or begin a new one."""
        self._client = client
        self.session_id = session_id or f"s-{secrets.token_hex(6)}"
        self._path = f"/v1/sessions/{quote(self.session_id, safe='')}"

    async def begin(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Begin the session, unless it has begun; what it is."""
        return await self._client.post("/v1/sessions", {"sessionId": self.session_id, **options})

    async def send(self, message: str, options: Mapping[str, Any]) -> str:
        """Send a message; gives the id of the turn that answers it."""
        body = {"message": message, "messageId": f"m-{secrets.token_hex(8)}", **options}
        return str((await self._client.post(f"{self._path}/messages?wait=0", body))["id"])

    async def cancel(self, turn_id: str) -> None:
        """Stop a turn with its tools and their runs."""
        await self._client.post(f"{self._turn(turn_id)}/cancel", {})

    async def events(self, turn_id: str) -> AsyncGenerator[Event]:
        """What happens in a turn, to its end, each event once, across dropped connections and restarted servers."""
        patience, after = self._client.patience(FOLLOW_PATIENCE_SECONDS), None
        while True:
            try:
                async with self._client.stream(f"{self._turn(turn_id)}/events", after=after) as stream:
                    async for raw in stream:
                        patience.over()
                        event = event_of(raw)
                        after = event.id or after
                        yield event
                        if event.name == "finish":
                            return
                server = self._client.server
                raise Unreachable(f"{server.url} closed the event stream.", hint=server.hint)
            except Unreachable as trouble:
                await patience.wait(trouble, at_least_seconds=retry_after(trouble))

    def _turn(self, turn_id: str) -> str:
        return f"{self._path}/turns/{quote(turn_id, safe='')}"
