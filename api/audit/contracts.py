"""The lines of the audit log."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from outlast.activities.failures.classify import redact

MAX_TEXT_CHARS = 200


def _cut(text: object) -> object:
    return redact(text[: 2 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS] if isinstance(text, str) else text


CutText = Annotated[str, BeforeValidator(_cut)]
"""Text that a caller may have chosen: cut, and without what looks like a secret. JSON escapes the rest."""


class AuditEvent(StrEnum):
    """The action that was done, or refused."""

    TASK_STARTED = "task.started"
    TASK_CANCELLED = "task.cancelled"
    TASK_RESURRECTED = "task.resurrected"
    TASK_ANSWERED = "task.answered"
    TASK_APPROVED = "task.approved"
    TASK_DECLINED = "task.declined"
    TURN_STARTED = "turn.started"
    TURN_CANCELLED = "turn.cancelled"
    SESSION_CREATED = "session.created"
    SESSION_UPDATED = "session.updated"
    SESSION_DELETED = "session.deleted"
    SESSION_EXPORTED = "session.exported"
    SESSION_IMPORTED = "session.imported"
    BATCH_STARTED = "batch.started"
    BATCH_CANCELLED = "batch.cancelled"
    BATCH_RETRIED = "batch.retried"
    BATCH_RESUMED = "batch.resumed"
    SCHEDULE_CREATED = "schedule.created"
    SCHEDULE_UPDATED = "schedule.updated"
    SCHEDULE_DELETED = "schedule.deleted"
    SCHEDULE_PAUSED = "schedule.paused"
    SCHEDULE_RESUMED = "schedule.resumed"
    SCHEDULE_TRIGGERED = "schedule.triggered"
    SCHEDULE_BACKFILLED = "schedule.backfilled"
    CALL_SAVED = "call.saved"
    SAVED_CALL_DELETED = "saved_call.deleted"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_ROTATED = "webhook.rotated"
    WEBHOOK_DELETED = "webhook.deleted"
    WEBHOOK_TESTED = "webhook.tested"
    WEBHOOK_REPLAYED = "webhook.replayed"
    OUTPUT_READ = "output.read"
    OUTPUT_DELETED = "output.deleted"
    RESOURCE_READ = "resource.read"
    CREDENTIALS_REFUSED = "credentials.refused"
    PERMISSION_REFUSED = "permission.refused"
    SCOPE_REFUSED = "scope.refused"
    POLICY_LOADED = "policy.loaded"
    POLICY_REFUSED = "policy.refused"
    KEY_ADDED = "key.added"
    KEY_CHANGED = "key.changed"
    KEY_REMOVED = "key.removed"
    LOG_OPENED = "log.opened"
    LOG_GAP = "log.gap"


class AuditRecord(BaseModel):
    """One record. There is no field for arguments, answers or credentials."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC), description="UTC, when it was recorded.")
    event: AuditEvent
    outcome: CutText = Field(default="ok", description="`ok`, `repeated`, or the slug of the error that it ended with.")
    caller: CutText | None = None
    door: str | None = Field(
        default=None, description="`rest`, `mcp`, `adapter`, `mcp-stdio`, `schedule` or `library`."
    )
    remote: CutText | None = Field(default=None, description="Address of the client.")
    request: str | None = Field(default=None, description="The response's `X-Request-Id`.")
    tool: CutText | None = None
    actor: CutText | None = None
    task: CutText | None = None
    batch: CutText | None = None
    schedule: CutText | None = None
    saved_call: CutText | None = Field(default=None, description="Name of a saved call.")
    session: CutText | None = None
    turn: CutText | None = None
    webhook: CutText | None = Field(default=None, description="Id of a webhook, or of a delivery.")
    output: CutText | None = Field(default=None, description="Locator.")
    key: CutText | None = Field(default=None, description="Id of an API key.")
    detail: CutText | None = Field(default=None, description="A rule of the operator, or numbers.")


class ChainStart(BaseModel):
    """Additional fields of the first record of a file or after a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chain: str = Field(description="Id of the chain, the same in all of its files.")
    mac_key: str = Field(description="Id of the sealing key from which the key of the next records is derived.")
    torn_bytes: int = Field(default=0, description="Bytes before this record that a crash left of an unfinished one.")
