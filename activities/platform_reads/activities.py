"""The activity that reads an object of the platform's API, for answers that hold the API's own objects."""

from collections.abc import Sequence
from datetime import timedelta
from typing import cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import JsonValue
from temporalio import activity

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.failures.not_found import not_found
from outlast.activities.heartbeat import activity_scope
from outlast.activities.json_values import loads
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.platform_reads.contracts import PlatformObject, PlatformReadInput

_ATTEMPT_TIMEOUT = timedelta(seconds=30)
_NO_SEGMENTS = frozenset({"", ".", ".."})
"""What means another address than it reads."""
_MAX_PARAMETER_CHARS = 1_000
_SIGNING_KEYS = frozenset({"urlSigningSecretKey"})
_SIGNATURES = frozenset({"signature", "token"})


class PlatformReadActivities:
    """Reads on behalf of the caller that each request names, and reaches what that caller may."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Read through `platform`."""
        self._platform = platform

    @activity.defn
    async def read_platform(self, request: PlatformReadInput) -> PlatformObject:
        """The object at a path. Fails with `not_found` when the caller has none there."""
        async with activity_scope():
            client = self._platform.client(request.caller)
            _check_parameters(request)
            response = await client.http_client.call(
                method="GET",
                url=url_of_path(self._platform, request.path),
                params=cast(dict[str, object], request.parameters) or None,
                timeout=_ATTEMPT_TIMEOUT,
            )
            body = response.read()
            if len(body) > request.max_bytes:
                raise _too_large(request, len(body))
            answer: JsonValue = loads(body)
            data = unsigned(answer.get("data")) if isinstance(answer, dict) else answer
            return PlatformObject(data=_only(request.members, data))


def _only(members: tuple[str, ...] | None, data: JsonValue) -> JsonValue:
    if members is None or not isinstance(data, dict):
        return data
    return {name: data[name] for name in members if name in data}


def url_of_path(platform: ApifyPlatform, path: Sequence[str]) -> str:
    """The address of a path below `/v2`. Raises `ToolFailure` for an id that no server takes in an address."""
    collection, *rest = path
    for segment in rest:
        platform.url_of(collection, segment)
        if segment in _NO_SEGMENTS:
            raise not_found(f"There is no {segment!r} among the {collection}.")
    tail = "".join(f"/{quote(segment.replace('/', '~'), safe='~')}" for segment in rest)
    return f"{platform.api_base_url}/v2/{collection}{tail}"


def _check_parameters(request: PlatformReadInput) -> None:
    """Raise `ToolFailure` for a parameter that is too long for an address."""
    for name, value in request.parameters.items():
        if isinstance(value, str) and len(value) > _MAX_PARAMETER_CHARS:
            message = f"{name} has {len(value)} characters; the limit is {_MAX_PARAMETER_CHARS}."
            raise ToolFailure.of(ErrorCategory.VALIDATION, message, "Write it shorter.")


def unsigned(value: JsonValue) -> JsonValue:
    """`value` without what lets every reader of a history read a storage: keys for signing, signatures in addresses."""
    if isinstance(value, dict):
        return {name: unsigned(entry) for name, entry in value.items() if name not in _SIGNING_KEYS}
    if isinstance(value, list):
        return [unsigned(entry) for entry in value]
    return _without_signature(value) if isinstance(value, str) and value.startswith(("http://", "https://")) else value


def _without_signature(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return address
    if not parts.query:
        return address
    given = parse_qsl(parts.query, keep_blank_values=True)
    kept = [(name, value) for name, value in given if name not in _SIGNATURES]
    return address if len(kept) == len(given) else urlunsplit(parts._replace(query=urlencode(kept)))


def _too_large(request: PlatformReadInput, size: int) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.VALIDATION,
        f"What the platform says of {'/'.join(request.path)} has {size} bytes; the limit is {request.max_bytes}.",
        "Ask for fewer entries.",
    )
