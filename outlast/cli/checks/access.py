"""Checks of the policy, and of the issuer of access tokens."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from outlast.api.access.oauth.access_tokens import Issuer, IssuerError
from outlast.api.access.oauth.resource import WELL_KNOWN, metadata_address
from outlast.api.access.policy.policy_file import PolicyError, read_policy_text, weak_points
from outlast.api.settings import ApiSettings
from outlast.cli.checks import Check, fail, ok, skip, warn
from outlast.cli.checks.machine import NO_METRICS, http_response, metrics_of_the_api
from outlast.cli.options import Options
from outlast.cli.show.output import counted

_POLICY = "Policy"
_IN_FORCE = "Policy in force"
_REFUSED = "outlast_policy_refused"
_ENDS_SOON = timedelta(days=14)


async def check_policy_in_force(options: Options) -> Check:
    """Check that the API uses the policy file as it is now."""
    metrics = await metrics_of_the_api(options)
    if isinstance(metrics, str):
        return skip(_IN_FORCE, metrics)
    if not metrics.get(_REFUSED):
        return skip(_IN_FORCE, NO_METRICS)
    if metrics[_REFUSED][0].value:
        return fail(
            _IN_FORCE,
            "the API rejected the current policy file, and uses the previous one",
            "Its log has the reason: an error, or the file lost its end, its end mark or its last key. Restore the "
            "file before you restart the API.",
        )
    return ok(_IN_FORCE, "as in the policy file, or without one as in the settings")


def check_policy(environment: Mapping[str, str], now: datetime | None = None) -> Check:
    """Check that the policy file is valid, and that none of its keys expires soon."""
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
            _POLICY, str(error), "`outlast policy check` lists all errors. The API still uses the previous policy."
        )
    policy = read.policy
    ending = [
        f"{key.id} of {key.caller} expires on {key.expires:%F}"
        for key in policy.keys
        if key.expires is not None and not key.is_expired(now) and key.expires - now < _ENDS_SOON
    ]
    if ending:
        return warn(_POLICY, "; ".join(ending), "Create a new key with `outlast keys create`, then revoke the old one.")
    weak = weak_points(read)
    if weak:
        return warn(_POLICY, f"{named}: {'; '.join(weak)}", "See docs/policy.md for both settings.")
    return ok(_POLICY, f"{named}, {counted(sum(not key.is_expired(now) for key in policy.keys), 'key')}")


_AUTHORIZATION = "Authorization"


async def check_issuer() -> Check:
    """Check that the issuer of `OUTLAST_OAUTH_ISSUER` publishes keys, and that clients find it through this server."""
    try:
        settings = ApiSettings()
    except ValidationError:
        return skip(_AUTHORIZATION, "the settings must be valid first")
    if settings.oauth_issuer is None:
        return skip(_AUTHORIZATION, "no OUTLAST_OAUTH_ISSUER")
    try:
        keys = await Issuer(settings.oauth_issuer).keys()
    except IssuerError as error:
        advice = "Correct OUTLAST_OAUTH_ISSUER: it must equal the issuer's own name, except for a final slash."
        return fail(_AUTHORIZATION, str(error), advice)
    finding = f"{settings.oauth_issuer}, {counted(len(keys.keys), 'key')}"
    own = settings.oauth_audiences[0]
    address = metadata_address(own)
    if await _resource_at(address) != own:
        advice = f"Let the proxy forward {WELL_KNOWN} too, and start the API; or correct OUTLAST_OAUTH_AUDIENCE."
        return warn(_AUTHORIZATION, f"{finding}; but {address} does not point clients to it", advice)
    return ok(_AUTHORIZATION, f"{finding}, for {own}")


async def _resource_at(address: str) -> str | None:
    """Return the resource in the metadata at an address."""
    answer = await http_response(address)
    try:
        found: object = answer.json() if answer is not None else None
    except ValueError:
        return None
    resource = cast(Mapping[str, object], found).get("resource") if isinstance(found, dict) else None
    return resource if isinstance(resource, str) else None
