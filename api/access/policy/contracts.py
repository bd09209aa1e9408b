"""The contents of a policy file. Every model rejects unknown keys, so that no misspelt key is ignored."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from outlast.activities.bounds import MAX_COUNT, checking_bounds
from outlast.activities.mcp_servers.texts import CALLER_SECRET
from outlast.activities.runs.contracts import MAX_RESURRECTIONS
from outlast.activities.spending.contracts import SpendingCaps
from outlast.activities.webhooks.contracts import MAX_WAITING, MAX_WAITING_TESTS
from outlast.workflows.contracts.tool_calls import Action, Age

M = TypeVar("M", bound=BaseModel)

Reach = Literal["own", "account"]
Scope = Literal["call", "read", "cancel", "approve", "admin"]
Anonymous = Literal["none", "local", "proxied"]
ALL_SCOPES: frozenset[Scope] = frozenset({"call", "read", "cancel", "approve", "admin"})

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
CallerId = Annotated[str, Field(min_length=1, max_length=200)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _count(default: int, description: str, *, least: int = 1, most: int = MAX_COUNT) -> Any:
    return Field(default=default, ge=least, le=most, description=description)


class Limits(_Entry):
    """Limits on concurrent use by one caller. The defaults far exceed the needs of one honest user."""

    requests_per_second: float = Field(default=200, gt=0, le=MAX_COUNT, description="Sustained requests per second.")
    request_burst: int = _count(2_000, "Maximum burst of requests.")
    open_streams: int = _count(1_000, "Streams of events and rows (GET) open at once.")
    unread_bytes: int = _count(
        16 * 1024 * 1024,
        "Bytes that an API process holds of responses that the caller has not read yet.",
        least=1024 * 1024,
    )
    waiting_requests: int = _count(2_500, "Other requests without an answer at once.")
    concurrent_starts: int = _count(4, "Tasks that an API process starts at a time; more wait for their turn.")
    concurrent_lists: int = _count(2, "Lists of tasks that an API process reads at a time; more wait for their turn.")
    concurrent_tasks: int = _count(100, "Concurrent tasks that use workers; later ones are queued.")
    queued_tasks: int = _count(10_000, "Tasks that are queued at once.", least=0)
    batches: int = _count(20, "Batches that have not ended.", least=0)
    batch_items: int = _count(100_000, "Items of one batch.")
    schedules: int = _count(100, "Schedules.", least=0)
    saved_calls: int = _count(1_000, "Saved calls.", least=0)
    webhooks: int = _count(20, "Webhooks that are subscribed.", least=0)
    webhook_deliveries: int = _count(MAX_WAITING, "Events that wait for receivers of webhooks; others are undelivered.")
    webhook_tests: int = _count(MAX_WAITING_TESTS, "`webhook.test` events not delivered yet.")
    sessions: int = _count(10_000, "Sessions that have not ended.")
    stored_bytes: int = _count(100_000_000_000, "Bytes of stored outputs.", least=0, most=2**63 - 1)
    concurrent_queries: int = _count(8, "Queries of stored outputs (JMESPath) at once.")
    mcp_sessions: int = _count(1_000, "MCP sessions (2025-11-25) open at once.")
    actors_per_connection: int = _count(50, "Names in the URL of an MCP connection.")


class Caps(SpendingCaps):
    """The caps as an operator writes them: a name that does not exist is an error, not no cap."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="wrap")
    @classmethod
    def _within_bounds(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        with checking_bounds():
            return handler(data)


class KeyEntry(_Entry):
    """An API key. The key itself is not here: `hash` proves it."""

    id: Name = Field(description="The part of the key that is no secret: a key reads `ol_ID_SECRET`.")
    caller: CallerId = Field(description="Whose key it is, as a caller's id: `key:NAME`.")
    hash: str = Field(description="`scrypt$N$R$P$SALT$HASH`, salt and hash as base64 (RFC 7914).")
    created: AwareDatetime | None = None
    expires: AwareDatetime | None = Field(default=None, description="Expiry. Default: never.")
    scopes: frozenset[Scope] = Field(default=frozenset({"call", "read", "cancel"}), description="Scopes of the key.")

    def is_expired(self, now: datetime | None = None) -> bool:
        """Check whether the key has expired."""
        return self.expires is not None and self.expires <= (now or datetime.now(UTC))


class PermissionEntry(_Entry):
    """A rule: calls of `tool` by `caller` are allowed, denied, or need an approval. `*` matches any part.

    `tag:NAME` in place of a tool means the tools with this tag.
    """

    caller: CallerId
    tool: str = Field(min_length=1, max_length=200)
    action: Action
    approver: Name | None = Field(
        default=None, description="With `ask`: the role that another caller must have to approve the call."
    )

    @model_validator(mode="after")
    def _approver_where_asked(self) -> Self:
        if self.approver is not None and self.action != "ask":
            raise ValueError('`approver` is for action = "ask" only')
        return self


class ReuseEntry(_Entry):
    """Calls of `tool` by `caller` are answered by identical ones that are not older than `max_age`."""

    caller: CallerId = "*"
    tool: str = Field(min_length=1, max_length=200, description="As in a rule: a tool, or an Actor as `user/name`.")
    max_age: Age = Field(description="`90s`, `10m`, `6h` or `7d`.")


class ResurrectEntry(_Entry):
    """Runs of `tool` that were cut short are resurrected for `caller`, each `max_times` at most."""

    caller: CallerId = "*"
    tool: str = Field(min_length=1, max_length=200, description="As in a rule: a tool, or an Actor as `user/name`.")
    max_times: int = Field(ge=0, le=MAX_RESURRECTIONS, description="0: never, even if the call requests it.")


class SecretPlace(_Entry):
    """Where a secret is: in a variable of the API, or in a file."""

    env: str | None = Field(default=None, min_length=1, description="Variable that holds it.")
    file: Path | None = Field(default=None, description="File that holds it, read for each request.")

    @model_validator(mode="after")
    def _is_one_place(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("name either `env` or `file`")
        return self


SecretName = Annotated[str, Field(pattern=f"^{CALLER_SECRET.pattern}$")]


class CallerEntry(_Entry):
    """Settings of one caller, or of all (`[defaults]`)."""

    apify_token_env: str | None = Field(default=None, description="Variable that holds the Apify token of its runs.")
    apify_token_file: Path | None = Field(default=None, description="File that holds the Apify token of its runs.")
    reach: Reach | None = Field(
        default=None,
        description="Which runs and storages of its Apify account it reaches: `own` or `account`. Default: all, "
        "unless several callers share the account.",
    )
    roles: frozenset[Name] = Field(
        default=frozenset(), description="Its roles as an approver: see `approver` of rules."
    )
    models: tuple[str, ...] = Field(
        default=("*",), description="Models it may use: `provider/model`, `*` for any part."
    )
    server_secrets: dict[SecretName, SecretPlace] = Field(
        default={}, description="Its values for `${caller:NAME}` in the file of MCP servers."
    )
    limits: Limits = Limits()
    spending: Caps = Caps()


IssuersScope = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")]
"""A scope as an authorization server names it (RFC 6749, section 3.3)."""


class OAuthEntry(_Entry):
    """Rights of access tokens of the authorization server (`OUTLAST_OAUTH_ISSUER`)."""

    claims: tuple[str, ...] = Field(
        default=("scope", "scp"),
        description="Claims whose words are looked up in `scopes`; `realm_access.roles` is a field of a claim.",
    )
    scopes: dict[IssuersScope, frozenset[Scope]] = Field(
        default={f"outlast:{scope}": frozenset({scope}) for scope in get_args(Scope)},
        description="What each of the authorization server's scopes or roles allows here.",
    )


class EndMark(_Entry):
    """The last line of a file, `[end]`. It has nothing in it."""


class Policy(_Entry):
    """A whole policy file."""

    end_mark: bool = Field(
        default=False, description="Whether the file ends with `[end]`. If set, a file without that line is truncated."
    )
    anonymous: Anonymous | None = Field(
        default=None,
        description="Which requests without a credential are `local`, with all scopes, on loopback only: none "
        "(`none`), "
        "those of this machine (`local`), or also those that a proxy forwards (`proxied`). Default: none.",
    )
    unmatched: Action = Field(default="allow", description="Decision for a call that no rule matches.")
    defaults: CallerEntry = Field(default=CallerEntry(), description="Settings of every caller.")
    callers: dict[CallerId, CallerEntry] = Field(
        default={}, description="By the caller's id: `key:NAME`, `apify:ACCOUNT ID`, `jwt:SUBJECT` or `local`."
    )
    rules: tuple[PermissionEntry, ...] = Field(default=(), description="The first one that matches applies.")
    reuse: tuple[ReuseEntry, ...] = Field(
        default=(), description="For calls without `options.reuse`; the first one that matches applies."
    )
    resurrect: tuple[ResurrectEntry, ...] = Field(
        default=(), description="The first one that matches applies, and limits `options.resurrect`."
    )
    keys: tuple[KeyEntry, ...] = ()
    oauth: OAuthEntry = OAuthEntry()
    end: EndMark | None = None

    def of(self, caller_id: str) -> CallerEntry:
        """Return the caller's entry over the defaults."""
        own = self.callers.get(caller_id)
        return self.defaults if own is None else _merged(self.defaults, own)

    def next_key_end(self, now: datetime | None = None) -> datetime | None:
        """Return the next expiry of a valid key; None if no key expires."""
        ends = [key.expires for key in self.keys if key.expires is not None and not key.is_expired(now)]
        return min(ends, default=None)

    @property
    def keys_by_id(self) -> dict[str, KeyEntry]:
        """The keys by their ids."""
        return {key.id: key for key in self.keys}

    def over(self, base: "Policy") -> "Policy":
        """Return this policy over `base`. The rules of `base` come last."""
        merged = _merged(base, self.model_copy(update={"defaults": _merged(base.defaults, self.defaults)}))
        lists = ("rules", "reuse", "resurrect")
        return merged.model_copy(update={name: (*getattr(self, name), *getattr(base, name)) for name in lists})


def _merged(base: M, own: M) -> M:
    """Apply the fields that `own` sets to `base`; nested tables are merged."""
    changes: dict[str, object] = {}
    for name in own.model_fields_set:
        default, value = getattr(base, name), getattr(own, name)
        tables = isinstance(default, Limits | SpendingCaps) and isinstance(value, Limits | SpendingCaps)
        changes[name] = _merged(default, value) if tables else value
    return base.model_copy(update=changes)
