"""Sessions of the older MCP revision (2025-11-25): how many of them one caller may have open in this process.

All callers share the memory for them, and the number that the MCP SDK accepts (10,000).
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager

from outlast.api.access.limits.token_bucket import Clock
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TooManyRequests
from outlast.api.metrics import LIMITED

_LIMIT = "mcp_sessions"
_RETRY_SECONDS = 30


class McpSessions:
    """The open sessions of each caller. One that is not used for `idle_seconds` has ended, as the SDK ends it then."""

    def __init__(self, policy: PolicySource, idle_seconds: float, clock: Clock = time.monotonic) -> None:
        """Apply the limits of the `policy` in force."""
        self._policy = policy
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._used_at: dict[str, dict[str, float]] = {}
        self._opening: Counter[str] = Counter()

    @contextmanager
    def opening(self, caller_id: str) -> Generator[Callable[[], None]]:
        """Open a session within the block; it counts until the function that this gives is called, or the block ends.

        Call that when the session is noted with `use`. Raises `TooManyRequests` when the caller may open no other one.
        """
        most = self._policy.of(caller_id).limits.mcp_sessions
        if len(self._open(caller_id)) + self._opening[caller_id] >= most:
            LIMITED.labels(_LIMIT).inc()
            raise TooManyRequests(
                f"{most} of your MCP sessions are open, which is the most that you may have (`{_LIMIT}` in the "
                "operator's policy). End sessions that you no longer use (DELETE with `Mcp-Session-Id`), or use "
                "protocol version 2026-07-28, which has none.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._opening[caller_id] += 1
        counted = ExitStack()
        counted.callback(self._opened, caller_id)
        with counted:
            yield counted.close

    def use(self, caller_id: str, session_id: str) -> None:
        """The session is open."""
        self._used_at.setdefault(caller_id, {})[session_id] = self._clock()

    def end(self, caller_id: str, session_id: str) -> None:
        """The session is open no longer."""
        self._used_at.get(caller_id, {}).pop(session_id, None)

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """For each caller with open sessions, the share of the limit that it uses."""
        shares: dict[str, Mapping[str, float]] = {}
        for caller_id in list(self._used_at):
            count = len(self._open(caller_id))
            shares[caller_id] = {_LIMIT: count / self._policy.of(caller_id).limits.mcp_sessions}
            if not count:
                del self._used_at[caller_id]
        return shares

    def _opened(self, caller_id: str) -> None:
        self._opening[caller_id] -= 1
        if not self._opening[caller_id]:
            del self._opening[caller_id]

    def _open(self, caller_id: str) -> Mapping[str, float]:
        since = self._clock() - self._idle_seconds
        still = {session: at for session, at in self._used_at.get(caller_id, {}).items() if at > since}
        if caller_id in self._used_at:
            self._used_at[caller_id] = still
        return still
