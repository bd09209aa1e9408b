"""The authorization server whose access tokens the API accepts."""

from collections.abc import Mapping
from typing import cast

import httpx
from pydantic import ValidationError

from outlast.api.access.oauth.issuer import Issuer, IssuerError
from outlast.api.access.oauth.resource import WELL_KNOWN, metadata_address
from outlast.api.settings import ApiSettings
from outlast.cli.checks.check import Check, fail, ok, skip, warn
from outlast.cli.show.wording import counted

_NAME = "Authorization"
_TIMEOUT_SECONDS = 5


async def check_issuer() -> Check:
    """The issuer that `OUTLAST_OAUTH_ISSUER` names publishes keys, and clients find it through this server."""
    try:
        settings = ApiSettings()
    except ValidationError:
        return skip(_NAME, "the settings have to be right first")
    if settings.oauth_issuer is None:
        return skip(_NAME, "no OUTLAST_OAUTH_ISSUER")
    try:
        keys = await Issuer(settings.oauth_issuer).keys()
    except IssuerError as error:
        advice = (
            "Correct OUTLAST_OAUTH_ISSUER: it has to read as the issuer calls itself, with or without a last slash."
        )
        return fail(_NAME, str(error), advice)
    finding = f"{settings.oauth_issuer}, {counted(len(keys.keys), 'key')}"
    own = settings.oauth_audiences[0]
    address = metadata_address(own)
    if await _resource_at(address) != own:
        advice = f"Have the proxy pass on {WELL_KNOWN} too, and start the API; or correct OUTLAST_OAUTH_AUDIENCE."
        return warn(_NAME, f"{finding}; but {address} does not lead clients to it", advice)
    return ok(_NAME, f"{finding}, for {own}")


async def _resource_at(address: str) -> str | None:
    """The resource that the metadata at an address is about."""
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
            found: object = (await http.get(address)).json()
    except (httpx.HTTPError, ValueError):
        return None
    resource = cast(Mapping[str, object], found).get("resource") if isinstance(found, dict) else None
    return resource if isinstance(resource, str) else None
