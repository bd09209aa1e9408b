"""Bodies of the platform's API for a caller, and signed links to records. No history contains them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import impit
from pydantic import JsonValue

from outlast.activities import apify
from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.json_values import loads, text_of
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_requests.activities import unsigned, url_of_path

_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class PlatformBody:
    """An answer of the platform. `data` is None if it is larger than the requested maximum."""

    content_type: str | None
    data: bytes | None


class PlatformRefusal(Exception):
    """The platform has refused a request, with `status`, or has not answered (None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class PlatformBodies:
    """Reads bodies for callers, who reach what they may."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    @property
    def api_base_url(self) -> str:
        """The platform's root, without `/v2`."""
        return self._platform.api_base_url

    async def read(
        self, caller: Caller, path: tuple[str, ...], parameters: Mapping[str, str], *, max_bytes: int, is_object: bool
    ) -> PlatformBody:
        """`GET` of a path below `/v2`; of an object of the API without keys for signing. Raises `PlatformRefusal`. No
        more than `max_bytes` are read, and nothing is repeated.
        """
        try:
            response = await self._platform.client(caller).http_client.call(
                method="GET",
                url=url_of_path(self._platform, path),
                params=cast(dict[str, object], dict(parameters)) or None,
                timeout=_TIMEOUT,
                stream=True,
            )
            try:
                content_type, data = response.headers.get("content-type"), await _read_body(response, max_bytes)
            finally:
                await response.aclose()
        except ToolFailure as error:
            status = 401 if error.envelope.category is ErrorCategory.AUTHENTICATION else 404
            raise PlatformRefusal(error.envelope.message, status) from error
        except (impit.HTTPError, OSError, TimeoutError) as error:
            raise PlatformRefusal(f"no answer ({type(error).__name__})") from error
        except apify.ApifyApiError as error:
            raise PlatformRefusal(error.message or "no reason given", error.status_code) from error
        return PlatformBody(content_type, _unsigned(data) if is_object else data)


async def _read_body(response: "apify.HttpResponse", max_bytes: int) -> bytes | None:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > max_bytes:
            return None
    return bytes(data)


def _unsigned(data: bytes | None) -> bytes | None:
    try:
        return data and text_of(unsigned(cast(JsonValue, loads(data))))
    except ValueError:
        return data


log = logging.getLogger("outlast.api")

_STORES, _RECORDS = "key-value-stores", "records"


class RecordLinks:
    """Signs the addresses of records for callers who reach them."""

    def __init__(self, platform: ApifyPlatform) -> None:
        self._platform = platform

    async def signed(self, caller: Caller, uri: str) -> str:
        """The address of a record with its signature. Any other address is returned as it is, and so is that of a
        record for which the platform gives no signature. A payment that came with a call is for the call alone: nothing
        is requested from the platform with it.
        """
        place = self._record_at(uri)
        if place is None or caller.payment is not None:
            return uri
        store, key = place
        try:
            link = await self._platform.client(caller).key_value_store(store).get_record_public_url(key)
        except Exception as error:  # noqa: BLE001 (the address is right without a signature, too)
            log.warning("A link to a record is not signed: %s", type(error).__name__)
            return uri
        signature = parse_qs(urlsplit(link).query).get("signature")
        return f"{uri}?{urlencode({'signature': signature[0]})}" if signature else uri

    def _record_at(self, uri: str) -> tuple[str, str] | None:
        """Return the store and the key of a record's address; None for any other."""
        root = f"{self._platform.api_base_url}/v2/{_STORES}/"
        store, *rest = uri.removeprefix(root).split("/", 2)
        if not uri.startswith(root) or "?" in uri or len(rest) != 2 or rest[0] != _RECORDS:
            return None
        return unquote(store), unquote(rest[1])
