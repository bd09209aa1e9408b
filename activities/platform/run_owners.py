"""Owners of runs: each start names its caller in the User-Agent, which the platform stores as `run.meta.userAgent`.

The name is a keyed digest: it tells the account's other users nothing, and nobody makes the one of another caller.
"""

import hashlib
import hmac

from outlast.activities.secrets.sealer import SecretSealer

_MARKER = "outlast-by/"
_PURPOSE = "owners of runs"
_DIGEST_CHARS = 32


class RunOwners:
    """Writes and reads the marks of callers, under keys that are derived from the ring of sealing keys."""

    def __init__(self, sealer: SecretSealer) -> None:
        """Write with the first key of the ring of `sealer`; read with all of them."""
        self._keys = tuple(sealer.derived_keys(_PURPOSE).values())

    def mark(self, caller_id: str) -> str:
        """The part of a User-Agent that names the caller."""
        return _mark(self._keys[0], caller_id)

    def is_of(self, user_agent: str | None, caller_id: str) -> bool:
        """Whether a run that was started with this User-Agent is the caller's."""
        parts = set((user_agent or "").replace(";", " ").split())
        return any(_mark(key, caller_id) in parts for key in self._keys)


def _mark(key: bytes, caller_id: str) -> str:
    digest = hmac.new(key, caller_id.encode(), hashlib.sha256).hexdigest()
    return f"{_MARKER}{digest[:_DIGEST_CHARS]}"
