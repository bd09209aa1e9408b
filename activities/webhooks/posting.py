"""Posts deliveries to receivers, signed as Standard Webhooks specifies. Addresses follow the rules for addresses that
are fetched for users; redirects are not followed.
"""

import asyncio
import base64
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Self

import httpcore2
from pydantic import SecretStr
from standardwebhooks import Webhook

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress
from outlast.activities.web.network import AnswerTooLargeError, OutboundPool, ProxyFailed
from outlast.activities.webhooks.contracts import SECRET_PREFIX

_USER_AGENT = "Outlast-Webhooks"
_CONNECT_SECONDS = 5.0
_MAX_CONNECTIONS = 1_000
"""Of one worker: many times the limit of one caller, so that no caller waits for another one's receivers."""
_MAX_ANSWER_BYTES = 32 * 1024
"""Read of an answer, for its status and headers."""
_TOO_LARGE = f"It sent more than {_MAX_ANSWER_BYTES // 1024} KB before its answer was complete."
_MAX_DIGITS = 12
_OK = range(200, 300)
_REDIRECTS = range(300, 400)
_GONE = 410


class PostOutcome(StrEnum):
    """The outcome of one attempt."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    FORBIDDEN = "forbidden"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Posted:
    """One attempt. `message` is the error, without the address, which may be a secret."""

    outcome: PostOutcome
    status: int | None = None
    message: str = ""
    retry_after_seconds: float | None = None

    @property
    def is_final(self) -> bool:
        """True if a further attempt would change nothing."""
        return self.outcome in (PostOutcome.GONE, PostOutcome.FORBIDDEN)


class WebhookPoster:
    """Posts under one set of rules. Sends no cookies and no credentials."""

    def __init__(self, rules: AddressRules, *, timeout_seconds: float, proxy_resolves: bool = False) -> None:
        """For `proxy_resolves`, see `OutboundPool`."""
        self._rules = rules
        self._timeout_seconds = timeout_seconds
        self._pool = OutboundPool(
            rules,
            max_bytes=_MAX_ANSWER_BYTES,
            proxy_resolves=proxy_resolves,
            max_connections=_MAX_CONNECTIONS,
            # Each event opens a new connection: its address is looked up and checked again.
            max_keepalive_connections=0,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.aclose()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Posted:
        """Post once."""
        try:
            address = WebAddress.parse(url)
            self._rules.check(address)
            async with asyncio.timeout(self._timeout_seconds):
                return await self._post(address, body, headers)
        except AddressNotAllowed as error:
            message = f"Its address may not be reached: {error.reason}. {error.remedy}".rstrip()
            return Posted(PostOutcome.FORBIDDEN, message=message)
        except ToolFailure:
            return Posted(PostOutcome.UNREACHABLE, message="There is no host of this name.")
        except (TimeoutError, httpcore2.TimeoutException):
            return Posted(PostOutcome.TIMEOUT, message=f"It did not answer within {self._timeout_seconds:g} seconds.")
        except (AnswerTooLargeError, ProxyFailed) as error:
            message = f"It cannot be reached: {error}." if isinstance(error, ProxyFailed) else _TOO_LARGE
            return Posted(PostOutcome.UNREACHABLE, message=message)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.UnsupportedProtocol, OSError) as error:
            return Posted(PostOutcome.UNREACHABLE, message=f"The connection failed ({type(error).__name__}).")

    async def _post(self, address: WebAddress, body: bytes, headers: Mapping[str, str]) -> Posted:
        sent = {
            "Host": address.netloc,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Accept": "*/*",
            "User-Agent": _USER_AGENT,
            **headers,
        }
        url = httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        raw = {name.encode(): value.encode() for name, value in sent.items()}
        timeouts = {"connect": _CONNECT_SECONDS, "read": self._timeout_seconds, "write": self._timeout_seconds}
        # The body of the answer is not read: only the status counts, and the body may have any size.
        async with self._pool.stream(
            "POST", url, headers=[*raw.items()], content=body, extensions={"timeout": timeouts}
        ) as response:
            pauses = (value for name, value in response.headers if name.lower() == b"retry-after")
            return posted(response.status, next(pauses, None))


def posted(status: int, retry_after: bytes | None = None) -> Posted:
    """The meaning of a status (Standard Webhooks, "Operational considerations"): 2xx is success, 410 is final."""
    if status in _OK:
        return Posted(PostOutcome.DELIVERED, status)
    if status == _GONE:
        return Posted(PostOutcome.GONE, status, "It answered 410: it wants no more events.")
    message = f"It answered {status}."
    if status in _REDIRECTS:
        message = f"It answered {status}: redirects are not followed."
    return Posted(PostOutcome.REFUSED, status, message, asked_pause_seconds(retry_after, datetime.now(UTC)))


def asked_pause_seconds(retry_after: bytes | None, now: datetime) -> float | None:
    """The pause that a header `Retry-After` asks for at `now`, in seconds (RFC 9110, section 10.2.3). None without the
    header, for one that is neither a number of seconds nor a date, and for a pause that is over.
    """
    if retry_after is None:
        return None
    if retry_after.isdigit():
        return float(retry_after[:_MAX_DIGITS]) or None
    try:
        until = parsedate_to_datetime(retry_after.decode("ascii"))
    except (ValueError, OverflowError):
        return None
    seconds = ((until if until.tzinfo is not None else until.replace(tzinfo=UTC)) - now).total_seconds()
    return seconds if seconds > 0 else None


_SECRET_BYTES = 32


def webhook_purpose(caller_id: str) -> str:
    """Return the purpose for which a caller's addresses and secrets are encrypted: they open for no other."""
    return f"webhook:{caller_id}"


def new_secret() -> SecretStr:
    """Return a new random secret."""
    return SecretStr(SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode())


def signed_headers(event_id: str, body: str, keys: Iterable[SecretStr], *, now: datetime) -> dict[str, str]:
    """The headers that prove who has sent `body`, when, and as which event; one signature for each of `keys`. `now` is
    UTC. A receiver refuses what is more than five minutes old, so each attempt is signed again.
    """
    signatures = [Webhook(key.get_secret_value()).sign(event_id, now, body) for key in keys]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
