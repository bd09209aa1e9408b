"""Bodies of the platform's API as they are, to be shown to a caller at once: they are in no history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

import impit
from pydantic import JsonValue

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.json_values import loads, text_of
from outlast.activities.platform import apify
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_reads.activities import unsigned, url_of_path

_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class PlatformBody:
    """An answer of the platform. `data` is None where it is larger than was asked for."""

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
        """Read through `platform`."""
        self._platform = platform

    @property
    def api_base_url(self) -> str:
        """The platform's root, without `/v2`."""
        return self._platform.api_base_url

    async def read(
        self, caller: Caller, path: tuple[str, ...], parameters: Mapping[str, str], *, max_bytes: int, is_object: bool
    ) -> PlatformBody:
        """`GET` of a path below `/v2`; of an object of the API without keys for signing. Raises `PlatformRefusal`.

        No more than `max_bytes` are read, and nothing is repeated.
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
