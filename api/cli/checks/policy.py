"""The policy file and the keys in it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from outlast.api.access.policy.policy_file import PolicyError, read_policy
from outlast.api.cli.checks.check import Check, fail, ok, skip, warn
from outlast.api.cli.show.wording import counted

_NAME = "Policy"
_ENDS_SOON = timedelta(days=14)


def check_policy(environment: Mapping[str, str], now: datetime | None = None) -> Check:
    """The policy file can be used, and none of its keys ends soon."""
    named = environment.get("OUTLAST_POLICY_FILE")
    if not named:
        return skip(_NAME, "no OUTLAST_POLICY_FILE")
    now = now or datetime.now(UTC)
    try:
        policy = read_policy(Path(named))
    except PolicyError as error:
        return fail(_NAME, str(error), "`outlast policy check` says it all. The API goes on with what it read before.")
    ending = [
        f"{key.id} of {key.caller} ends on {key.expires:%F}"
        for key in policy.keys
        if key.expires is not None and not key.is_expired(now) and key.expires - now < _ENDS_SOON
    ]
    if ending:
        return warn(_NAME, "; ".join(ending), "`outlast keys create` makes the next one; then revoke the old one.")
    return ok(_NAME, f"{named}, {counted(sum(not key.is_expired(now) for key in policy.keys), 'key')}")
