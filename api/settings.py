"""Settings of the API process."""

import ipaddress
import os
from datetime import timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import SettingsConfigDict

from outlast.activities.outputs import contracts as outputs
from outlast.api.access.permissions import PermissionRules
from outlast.api.access.policy.contracts import CallerEntry, Caps, Limits, PermissionEntry, Policy
from outlast.api.access.web_origins import WebOrigins
from outlast.worker.settings import Settings
from outlast.workflows.contracts.sessions import SESSION_IDLE
from outlast.workflows.contracts.tool_calls import OutputOptions

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def address_problem(url: str) -> str | None:
    """Explain why `url` cannot be an issuer or resource (RFC 8414, section 2; RFC 9728, section 1.2); None if valid."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not an address"
    if parts.scheme not in ("http", "https") or not host:
        return "must be an address that begins with https://"
    if parts.scheme == "http" and host not in LOOPBACK:
        return "must begin with https://; http:// is for loopback only"
    if parts.username is not None or parts.query or parts.fragment:
        return "must have no user name, query or fragment"
    return None


class ApiSettings(Settings):
    """Settings of the entry points. The docstring of each field is its description."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    api_host: str = "127.0.0.1"
    """Address the API binds. Beyond loopback, set OUTLAST_API_KEYS."""
    api_port: int = Field(default=8400, ge=0, le=65535)
    """Port the API binds."""
    api_keys: SecretStr | None = None
    """Bearer keys of known callers: `name:key`, comma-separated. A key has 16 characters or more."""
    accept_apify_tokens: bool = True
    """True to accept Apify tokens as bearer tokens; their accounts pay the runs."""
    oauth_issuer: str | None = None
    """Authorization server whose access tokens (JWT) are accepted, as in the tokens' `iss`."""
    oauth_audience: str = Field(default="", validate_default=True)
    """Address of this server's `/mcp` as clients have it, for which tokens must be issued (`aud`). Other audiences that
    count too follow, comma-separated."""
    oauth_clock_skew_seconds: float = Field(default=30, ge=0, le=300)
    """Tolerance for the clock of the authorization server."""
    web_console: Literal["on", "off"] = "on"
    """`off` to serve no console at `/console/`."""
    mode: str = "default"
    """Presentation of tools: `default` (sync), `openai` (async, widgets), or `apify` (as Apify's own MCP server
    does)."""
    builtin_tools: str = "on"
    """Outlast's own tools: `on`, `off`, or the tools, categories and Actors to offer, comma-separated."""
    sandbox: bool = False
    """True if the platform is the sandbox of an embedded stack. With tools of the operator, it is not a platform that
    they have chosen."""
    default_tools: str = "actors,docs"
    """Tools, categories and tags offered to MCP connections that choose no tools, comma-separated."""
    default_actors: str = "apify/rag-web-browser"
    """Actors offered as separate tools, comma-separated."""
    permissions: str = ""
    """Rules for calls: `CALLER:TOOL=allow`, `=ask` or `=deny`, comma-separated; the first wins."""
    policy_file: Path | None = None
    """Policy file (TOML): callers, keys, limits, permissions. It is read again when it changes and on SIGHUP."""
    grafana_url: str | None = None
    """Root of Grafana with Outlast's dashboards, for links."""
    limits: Limits = Field(default_factory=Limits)
    """Limits on concurrent use by one caller, as JSON."""
    spending: Caps = Field(default_factory=Caps)
    """Spending limits of one caller, in US dollars, as JSON."""
    audit_file: Path | None = None
    """File of the audit log (JSON lines); `-` for none. Default: none."""
    audit_max_bytes: int = Field(default=64 * 1024 * 1024, ge=65_536)
    """Size at which the audit log continues in a new file."""
    audit_strict: bool = False
    """True to refuse requests whose audit record cannot be written to the disk at once."""
    fairness: bool = False
    """True for equal shares of the workers, so that one caller's calls do not delay others."""
    quick_calls: int = Field(default=0, ge=0, le=1_000)
    """Quick reads that the API runs itself at a time, in the step that starts them; 0 for none."""
    compression: bool = True
    """True to store large outputs, and answer with a locator and a summary."""
    kill_switch: bool = False
    """Disables compression and masks, whatever other settings and requests select."""
    tool_masking: bool = False
    """True to apply the tool masks of requests; otherwise they are ignored."""
    output_threshold_bytes: int = Field(default=outputs.DEFAULT_THRESHOLD_BYTES, ge=0)
    """Outputs of more bytes (UTF-8) are stored."""
    output_ttl_seconds: int = Field(default=outputs.DEFAULT_TTL_SECONDS, ge=1)
    """Default lifetime of a stored output."""
    output_inline_limit_bytes: int = Field(default=outputs.DEFAULT_INLINE_LIMIT_BYTES, ge=1_024)
    """Without compression, a larger output is an explicit error."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    """Largest request body accepted."""
    max_batch_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest file of a batch's items that may be uploaded."""
    max_body_values: int = Field(default=250_000, ge=100)
    """Most values in a request body: elements of arrays, entries of objects."""
    max_body_depth: int = Field(default=100, ge=10, le=200)
    """Deepest nesting in a request body."""
    schema_check_seconds: float = Field(default=10, gt=0, le=300)
    """Maximum processor time for a check of one value against an external JSON Schema."""
    request_seconds: float = Field(default=60, gt=0)
    """Longest time for the head of a request to arrive, and then for its body."""
    unread_seconds: float = Field(default=60, gt=0)
    """Maximum time without progress of a client that reads a response; then its connection is closed."""
    connections_per_address: int = Field(default=4_000, ge=1)
    """Connections that one address may have open."""
    failed_credentials_per_minute: int = Field(default=60, ge=1)
    """Wrong bearer tokens that one address may try per minute."""
    anonymous_requests_per_second: float = Field(default=50, gt=0)
    """Requests without a valid credential that one address may send per second."""
    trusted_proxies: str = ""
    """Addresses and networks of proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted,
    comma-separated."""
    max_wait_seconds: int = Field(default=300, ge=1)
    """Maximum wait that a request may set."""
    max_listed_tools: int = Field(default=40, ge=0, le=100_000)
    """Tools of servers, Actors and the operator that an MCP connection lists. With more, it has tools to search,
    describe and call them instead; 0 lists all."""
    mcp_session_idle_seconds: int = Field(default=1_800, ge=1, le=30 * 86_400)
    """An MCP session without a request for this long ends."""
    compaction: bool = True
    """True to have the model summarise a conversation that nears its context window."""
    model_providers: str | None = None
    """Providers that the workers have keys or addresses for, comma-separated. Default: unknown."""
    session_idle_days: float = Field(default=SESSION_IDLE / timedelta(days=1), gt=0, le=3_650)
    """Lifetime of a session and its conversation without a call or a message."""
    run_heartbeat_seconds: int = Field(default=60, ge=5)
    """Seconds without a heartbeat after which another worker follows the run."""

    instance_id: str | None = None
    """Value of the header `Outlast-Instance` of `/healthz` and `/readyz`."""
    hsts_seconds: int = Field(default=0, ge=0)
    """Time for which browsers use only HTTPS for this name; set it behind a proxy with TLS."""
    allowed_hosts: str = ""
    """Host headers that MCP accepts beyond loopback, comma-separated; empty accepts any."""
    allowed_origins: str = ""
    """Origins of web pages of other sites that may use this server, comma-separated: `https://app.example`, or
    `http://localhost:*` for every port."""

    @field_validator("audit_file")
    @classmethod
    def _unless_switched_off(cls, value: Path | None) -> Path | None:
        return None if value in (Path("-"), Path()) else value

    @field_validator("allowed_origins")
    @classmethod
    def _of_pages(cls, value: str) -> str:
        WebOrigins(split_names(value))
        return value

    @field_validator("trusted_proxies")
    @classmethod
    def _of_proxies(cls, value: str) -> str:
        for name in split_names(value):
            try:
                ipaddress.ip_network(name)
            except ValueError as error:
                raise ValueError(f"{name!r} is neither an address nor a network of addresses: {error}") from None
        return value

    @field_validator("oauth_issuer")
    @classmethod
    def _of_an_issuer(cls, value: str | None) -> str | None:
        problem = address_problem(value) if value else None
        if problem is not None:
            raise ValueError(problem)
        return value or None

    @field_validator("policy_file")
    @classmethod
    def _named(cls, value: Path | None) -> Path | None:
        if value == Path():
            raise ValueError("is set, but names no file; unset it to do without a policy file")
        return value

    @field_validator("oauth_audience")
    @classmethod
    def _of_this_server(cls, value: str, info: ValidationInfo) -> str:
        own = next(iter(split_names(value)), None)
        if own is None and info.data.get("oauth_issuer"):
            raise ValueError("is needed with OUTLAST_OAUTH_ISSUER: the address of this server's /mcp")
        problem = address_problem(own) if own else None
        if problem is not None:
            raise ValueError(f"{problem} (its first entry)")
        return value

    @field_validator("api_keys")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        for entry in parse_entries(value):
            name, separator, key = entry.partition(":")
            if not separator or not name or len(key) < 16:
                raise ValueError(
                    "each entry of OUTLAST_API_KEYS must read `name:key`, the key with 16 characters or more"
                )
        keys = [entry.partition(":")[2] for entry in parse_entries(value)]
        if len(keys) != len(set(keys)):
            raise ValueError("two callers have the same key: each key may occur once")
        return value

    def output_policy(self, asked: OutputOptions) -> outputs.OutputPolicy:
        """Return the policy of a call with these options. The kill switch overrides everything."""
        return outputs.OutputPolicy(
            compress=self.compression and asked.compress and not self.kill_switch,
            threshold_bytes=asked.threshold_bytes,
            default_threshold_bytes=self.output_threshold_bytes,
            ttl_seconds=asked.ttl_seconds or self.output_ttl_seconds,
            inline_limit_bytes=self.output_inline_limit_bytes,
        )

    @property
    def session_idle(self) -> timedelta:
        """`session_idle_days` as a timedelta."""
        return timedelta(days=self.session_idle_days)

    @property
    def masks_are_heeded(self) -> bool:
        """True if tool masks have an effect. The kill switch overrides everything."""
        return self.tool_masking and not self.kill_switch

    @field_validator("permissions")
    @classmethod
    def _readable(cls, value: str) -> str:
        PermissionRules.parse(value)
        return value

    @property
    def policy(self) -> Policy:
        """The policy of these settings, for what a policy file leaves out."""
        rules = PermissionRules.parse(self.permissions).rules
        return Policy(
            defaults=CallerEntry(limits=self.limits, spending=self.spending),
            rules=tuple(PermissionEntry(caller=rule.caller, tool=rule.tool, action=rule.action) for rule in rules),
        )

    @property
    def actors(self) -> tuple[str, ...]:
        """`default_actors` as a tuple."""
        return split_names(self.default_actors)

    @property
    def defaults_need_token(self) -> bool:
        """True if Apify's tools are by default for callers with an Apify token only, once the operator has tools."""
        has_token = self.apify_token is not None and bool(self.apify_token.get_secret_value()) and not self.sandbox
        return not has_token and "default_tools" not in self.model_fields_set

    @property
    def selectors(self) -> tuple[str, ...]:
        """`default_tools` as a tuple."""
        return split_names(self.default_tools)

    @property
    def configured_providers(self) -> frozenset[str] | None:
        """`model_providers` as a set, None while it is not known."""
        return None if self.model_providers is None else frozenset(split_names(self.model_providers))

    @property
    def oauth_audiences(self) -> tuple[str, ...]:
        """`oauth_audience` as a tuple; this server's own address first."""
        return split_names(self.oauth_audience)

    @property
    def hosts(self) -> tuple[str, ...]:
        """`allowed_hosts` as a tuple."""
        return split_names(self.allowed_hosts)

    @property
    def origins(self) -> tuple[str, ...]:
        """`allowed_origins` as a tuple."""
        return split_names(self.allowed_origins)

    @property
    def has_credentials(self) -> bool:
        """True if the operator has chosen credentials."""
        accepts_tokens = self.accept_apify_tokens and "accept_apify_tokens" in self.model_fields_set
        return accepts_tokens or bool(parse_entries(self.api_keys) or self.policy_file or self.oauth_issuer)

    @property
    def empty_credentials(self) -> tuple[str, ...]:
        """Variables that are set, but empty: their content is lost, or was never filled in."""
        has_keys, given = bool(parse_entries(self.api_keys)), self.model_fields_set
        found = {
            "OUTLAST_API_KEYS": not has_keys and "api_keys" in given,
            "OUTLAST_OAUTH_ISSUER": self.oauth_issuer is None and "oauth_issuer" in given,
            "OUTLAST_API_KEYS_FILE": not has_keys and "OUTLAST_API_KEYS_FILE" in os.environ,
        }
        return tuple(name for name, is_empty in found.items() if is_empty)

    @property
    def is_open(self) -> bool:
        """True if everybody on this machine is `local` without a credential: on loopback, without any setting of
        credentials. Keys that are missing by accident open nothing.
        """
        known = parse_entries(self.api_keys) or self.policy_file or self.oauth_issuer
        return self.is_loopback and not known and not self.empty_credentials

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the API."""
        return self.api_host in LOOPBACK


def split_names(text: str) -> tuple[str, ...]:
    """Return the comma-separated names in `text`."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_entries(value: SecretStr | None) -> tuple[str, ...]:
    """Return the comma-separated entries of a secret setting."""
    return tuple(entry.strip() for entry in value.get_secret_value().split(",") if entry.strip()) if value else ()
