"""The platform's payment terms (x402), as it sends them to callers who have not paid."""

import asyncio
import base64
import binascii
import logging
import math
import time
from collections.abc import Callable

import httpx2
from pydantic import TypeAdapter, ValidationError

from outlast.activities.contracts import JsonObject
from outlast.activities.platform.request_marks import PROTOCOL_HEADER
from outlast.activities.web.network import outbound_client

log = logging.getLogger("outlast.api")

REQUIRED_HEADER = "payment-required"
_MAX_HEADER_CHARS = 65_536
_OBJECT = TypeAdapter(JsonObject)
_KEPT_SECONDS = 30 * 60
_FETCH_SECONDS = 8.0
_PAUSE_SECONDS = 30.0
"""Pause after a failed request for the terms, as each list of tools would wait for an attempt."""


class PaymentTerms:
    """The terms of x402, read once in half an hour. While they cannot be read, those from before count."""

    def __init__(self, api_base_url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`api_base_url` is the platform's root, without `/v2`."""
        self._url = f"{api_base_url.rstrip('/')}/v2/acts/"
        self._clock = clock
        self._turn = asyncio.Lock()
        self._terms: JsonObject | None = None
        self._ask_at = -math.inf

    async def x402(self) -> JsonObject | None:
        """Return the PaymentRequired object; None if the platform has not sent it yet."""
        async with self._turn:
            if self._clock() >= self._ask_at:
                terms = await self._fetched()
                self._terms = terms or self._terms
                self._ask_at = self._clock() + (_KEPT_SECONDS if terms else _PAUSE_SECONDS)
            return self._terms

    async def _fetched(self) -> JsonObject | None:
        try:
            async with outbound_client(timeout=_FETCH_SECONDS) as http:
                answer = await http.get(self._url, headers={PROTOCOL_HEADER: "x402"})
        except httpx2.HTTPError as error:
            log.warning("The platform's terms of payment cannot be read: %s", type(error).__name__)
            return None
        terms = payment_terms(answer.headers.get(REQUIRED_HEADER))
        if terms is None:
            log.warning("The platform answered %d without terms of payment", answer.status_code)
        return terms


def payment_terms(header: str | None) -> JsonObject | None:
    """Parse the header `payment-required`, base64 of JSON; None if absent or unreadable."""
    if not header or len(header) > _MAX_HEADER_CHARS:
        return None
    try:
        terms = _OBJECT.validate_json(base64.b64decode(header, validate=True))
    except (binascii.Error, ValidationError):
        return None
    return terms if isinstance(terms.get("accepts"), list) else None
