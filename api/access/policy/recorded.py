"""Changes of the policy and of its keys, in the audit log."""

from outlast.api.access.policy.contracts import KeyEntry, Policy
from outlast.api.access.policy.policy_file import PolicyError
from outlast.api.access.policy.source import PolicySource
from outlast.api.audit.contracts import AuditEvent
from outlast.api.audit.log import AuditLog


def record_changes(source: PolicySource, audit: AuditLog) -> None:
    """Record each new policy of `source` from now on, which keys came, changed and went with it, and each file that
    could not be used.
    """
    known = _keys(source.current)

    def changed(policy: Policy) -> None:
        nonlocal known
        counts = f"{len(policy.callers)} callers, {len(policy.keys)} keys, {len(policy.rules)} rules"
        audit.record_now(AuditEvent.POLICY_LOADED, detail=counts)
        before, known = known, _keys(policy)
        for key_id in sorted(before.keys() | known.keys()):
            _record(audit, key_id, before.get(key_id), known.get(key_id))

    def refused(error: PolicyError) -> None:
        audit.record_now(AuditEvent.POLICY_REFUSED, outcome="bad-policy", detail="; ".join(error.problems))

    source.on_change(changed)
    source.on_failure(refused)


def _record(audit: AuditLog, key_id: str, before: KeyEntry | None, now: KeyEntry | None) -> None:
    if before == now:
        return
    event = AuditEvent.KEY_ADDED if before is None else AuditEvent.KEY_CHANGED
    if now is None:
        event = AuditEvent.KEY_REMOVED
    entry = now or before
    audit.record_now(event, key=key_id, detail=f"of {entry.caller}" if entry else None)


def _keys(policy: Policy) -> dict[str, KeyEntry]:
    return {key.id: key for key in policy.keys}
