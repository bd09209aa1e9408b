"""Checks of the policy and of the issuer of access tokens."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import httpx
from pydantic import ValidationError

from outlast.api.access.oauth.issuer import Issuer, IssuerError
from outlast.api.access.oauth.resource import WELL_KNOWN, metadata_address
from outlast.api.access.policy.policy_file import PolicyError, read_policy_text, weak_points
from outlast.api.settings import ApiSettings
from outlast.cli.checks.check import Check, fail, ok, skip, warn
from outlast.cli.connection import trying_once
from outlast.cli.options import Options
from outlast.cli.show.wording import counted
from outlast.client import ConnectionFailed, OutlastError

_POLICY = "Policy"
_IN_FORCE = "Policy in force"
_REFUSED = "outlast_policy_refused"
_ENDS_SOON = timedelta(days=14)


async def check_policy_in_force(options: Options) -> Check:
    """The policy in force is that of the file: the API could use the file as it is now."""
    try:
        async with trying_once(options) as client:
            metrics = await client.metrics()
    except ConnectionFailed:
        return skip(_IN_FORCE, "the API does not answer")
    except OutlastError:
        return skip(_IN_FORCE, "the API shows no metrics here")
    refused = [line for line in metrics.splitlines() if line.startswith(f"{_REFUSED} ")]
    if not refused:
        return skip(_IN_FORCE, "the API shows no metrics here")
    if float(refused[0].split()[1]):
        return fail(
            _IN_FORCE,
            "the API has refused the policy file as it is now; what it read before stays in force",
            "Its log says why: an error, or that the file lost its end, its end mark or its last key. Restore the file "
            "before you restart the API.",
        )
    return ok(_IN_FORCE, "as the policy file says, or without one as the settings say")


def check_policy(environment: Mapping[str, str], now: datetime | None = None) -> Check:
    """The policy file can be used, and none of its keys ends soon."""
    named = environment.get("OUTLAST_POLICY_FILE")
    if named is None:
        return skip(_POLICY, "no OUTLAST_POLICY_FILE")
    if not named:
        return fail(_POLICY, "OUTLAST_POLICY_FILE is set, but empty", "Name the file, or unset the variable.")
    now = now or datetime.now(UTC)
    try:
        read = read_policy_text(Path(named))
    except PolicyError as error:
        return fail(
            _POLICY, str(error), "`outlast policy check` says it all. The API goes on with what it read before."
        )
    policy = read.policy
    ending = [
        f"{key.id} of {key.caller} ends on {key.expires:%F}"
        for key in policy.keys
        if key.expires is not None and not key.is_expired(now) and key.expires - now < _ENDS_SOON
    ]
    if ending:
        return warn(_POLICY, "; ".join(ending), "`outlast keys create` makes the next one; then revoke the old one.")
    weak = weak_points(read)
    if weak:
        return warn(_POLICY, f"{named}: {'; '.join(weak)}", "The page Policy of the documentation has both settings.")
    return ok(_POLICY, f"{named}, {counted(sum(not key.is_expired(now) for key in policy.keys), 'key')}")


_AUTHORIZATION = "Authorization"
_TIMEOUT_SECONDS = 5


async def check_issuer() -> Check:
    """The issuer that `OUTLAST_OAUTH_ISSUER` names publishes keys, and clients find it through this server."""
    try:
        settings = ApiSettings()
    except ValidationError:
        return skip(_AUTHORIZATION, "the settings have to be right first")
    if settings.oauth_issuer is None:
        return skip(_AUTHORIZATION, "no OUTLAST_OAUTH_ISSUER")
    try:
        keys = await Issuer(settings.oauth_issuer).keys()
    except IssuerError as error:
        advice = (
            "Correct OUTLAST_OAUTH_ISSUER: it has to read as the issuer calls itself, with or without a last slash."
        )
        return fail(_AUTHORIZATION, str(error), advice)
    finding = f"{settings.oauth_issuer}, {counted(len(keys.keys), 'key')}"
    own = settings.oauth_audiences[0]
    address = metadata_address(own)
    if await _resource_at(address) != own:
        advice = f"Have the proxy pass on {WELL_KNOWN} too, and start the API; or correct OUTLAST_OAUTH_AUDIENCE."
        return warn(_AUTHORIZATION, f"{finding}; but {address} does not lead clients to it", advice)
    return ok(_AUTHORIZATION, f"{finding}, for {own}")


async def _resource_at(address: str) -> str | None:
    """The resource that the metadata at an address is about."""
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
            found: object = (await http.get(address)).json()
    except (httpx.HTTPError, ValueError):
        return None
    resource = cast(Mapping[str, object], found).get("resource") if isinstance(found, dict) else None
    return resource if isinstance(resource, str) else None
