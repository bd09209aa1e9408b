"""The policy in force, and how it changes while the API runs."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType]  # types of anyio are left open

from outlast.activities.spending.contracts import SpendingCaps
from outlast.api.access.policy.contracts import CallerEntry, KeyEntry, Policy
from outlast.api.access.policy.policy_file import PolicyError, PolicyText, read_policy_text, shrinkage, weak_points
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.metrics import POLICY_LOADS, POLICY_REFUSED

_MOST_MERGED_MILLISECONDS = 500
"""Time for which changes in the folder are merged. In a folder with logs, a revoked key works that much longer."""
log = logging.getLogger("outlast.api")


class PolicySource:
    """The policy in force. Read `current` for each decision: it changes with the file.

    A file that is invalid, or has lost something by accident (`shrinkage`), leaves the policy as it was: the log has
    the reason, `outlast_policy_loads_total{outcome="error"}` counts it, and `outlast_policy_refused` is 1 until the
    file is valid.
    """

    def __init__(self, path: Path | None, *, base: Policy | None = None) -> None:
        """The policy in the file at `path`, and `base` for what the file leaves open. Raises `PolicyError`."""
        self._path = path
        self._base = base or Policy()
        self._version: tuple[int, ...] | None = None
        self._text = self._read_text()
        self._policy = self._merged(self._text)
        POLICY_REFUSED.set(0)
        self._observers: list[Callable[[Policy], None]] = []
        self._failure_observers: list[Callable[[PolicyError], None]] = []
        self._problems: tuple[str, ...] = ()

    @property
    def has_file(self) -> bool:
        """True if there is a policy file."""
        return self._path is not None

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the file as it is now cannot be used; empty while the one in force is the latest."""
        return self._problems

    @property
    def current(self) -> Policy:
        """The policy in force."""
        return self._policy

    @property
    def weak_points(self) -> list[str]:
        """Weak points of the file in force, one line each; empty without a file."""
        return [] if self._text is None else weak_points(self._text)

    def of(self, caller_id: str) -> CallerEntry:
        """Return the entry of a caller in the policy in force."""
        return self._policy.of(caller_id)

    def caps_of(self, caller_id: str) -> SpendingCaps | None:
        """Return the spending caps in force for a caller; None without any."""
        caps = self.of(caller_id).spending
        return caps if caps.are_set else None

    def on_change(self, observer: Callable[[Policy], None]) -> None:
        """Call `observer` with each new policy."""
        self._observers.append(observer)

    def on_failure(self, observer: Callable[[PolicyError], None]) -> None:
        """Call `observer` when the file cannot be used, and again when other things are wrong with it."""
        self._failure_observers.append(observer)

    def reload(self) -> bool:
        """Read the file again. Returns whether it could be used; otherwise the policy in force stays."""
        if self._path is None:
            return True
        try:
            text = self._read_text()
            lost = shrinkage(self._text, text) if self._text is not None and text is not None else []
            if lost:
                raise PolicyError(self._path, lost)
        except PolicyError as error:
            POLICY_LOADS.labels("error").inc()
            POLICY_REFUSED.set(1)
            log.error("The previous policy stays in force: %s", error)  # noqa: TRY400  # the operator needs the message
            self._notify(error)
            return False
        POLICY_LOADS.labels("ok").inc()
        POLICY_REFUSED.set(0)
        self._problems = ()
        self._text, policy = text, self._merged(text)
        if policy != self._policy:
            self._policy = policy
            for observer in self._observers:
                observer(policy)
            log.info("Policy loaded", extra={"callers": len(policy.callers), "keys": len(policy.keys)})
        return True

    def _notify(self, error: PolicyError) -> None:
        """Report the same problems once: observers may write into the folder that is watched."""
        if tuple(error.problems) != self._problems:
            self._problems = tuple(error.problems)
            for observer in self._failure_observers:
                observer(error)

    @asynccontextmanager
    async def watched(self, *, on_signal: bool = True) -> AsyncGenerator[None]:
        """Reload on every change of the file, and with `on_signal` on SIGHUP, until left."""
        if self._path is None:
            yield
            return
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, ValueError, RuntimeError):  # no signals off the main thread
            if on_signal:
                loop.add_signal_handler(signal.SIGHUP, self.reload)
        watcher = asyncio.create_task(self._watch(self._path))
        try:
            yield
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher
            with suppress(NotImplementedError, ValueError, RuntimeError):
                if on_signal:
                    loop.remove_signal_handler(signal.SIGHUP)

    def _read_text(self) -> PolicyText | None:
        if self._path is None:
            return None
        self._version = _version(self._path)
        return read_policy_text(self._path)

    def _merged(self, text: PolicyText | None) -> Policy:
        return self._base if text is None else text.policy.over(self._base)

    async def _watch(self, path: Path) -> None:
        """Watch the folder, which may also have logs: editors and Kubernetes replace files instead of writing into
        them.
        """
        async for _ in awatch(path.parent, recursive=False, debounce=_MOST_MERGED_MILLISECONDS):  # pyright: ignore[reportUnknownVariableType]
            if _version(path) != self._version:
                self.reload()


def _version(path: Path) -> tuple[int, ...] | None:
    """Differs when the file, or what it links to, was written or replaced; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def record_changes(source: PolicySource, audit: AuditLog) -> None:
    """Record each new policy of `source`, the keys that it adds, changes and removes, and each invalid file."""
    known = source.current.keys_by_id

    def changed(policy: Policy) -> None:
        nonlocal known
        counts = f"{len(policy.callers)} callers, {len(policy.keys)} keys, {len(policy.rules)} rules"
        audit.record_now(AuditEvent.POLICY_LOADED, detail=counts)
        before, known = known, policy.keys_by_id
        for key_id in sorted(before.keys() | known.keys()):
            _record(audit, key_id, before.get(key_id), known.get(key_id))

    def refused(error: PolicyError) -> None:
        audit.record_now(AuditEvent.POLICY_REFUSED, outcome="bad-policy", detail="; ".join(error.problems))

    source.on_change(changed)
    source.on_failure(refused)


def _record(audit: AuditLog, key_id: str, before: KeyEntry | None, now: KeyEntry | None) -> None:
    if before == now:
        return
    changed = AuditEvent.KEY_CHANGED if now is not None else AuditEvent.KEY_REMOVED
    event = AuditEvent.KEY_ADDED if before is None else changed
    entry = now or before
    audit.record_now(event, key=key_id, detail=f"of {entry.caller}" if entry else None)
