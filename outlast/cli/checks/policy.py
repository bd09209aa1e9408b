"""The policy file and the keys in it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from outlast.api.access.policy.policy_file import PolicyError, read_policy_text, weak_points
from outlast.cli.checks.check import Check, fail, ok, skip, warn
from outlast.cli.connecting import trying_once
from outlast.cli.options import Options
from outlast.cli.show.wording import counted
from outlast.client import ConnectionFailed, OutlastError

_NAME = "Policy"
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
        return skip(_NAME, "no OUTLAST_POLICY_FILE")
    if not named:
        return fail(_NAME, "OUTLAST_POLICY_FILE is set, but empty", "Name the file, or unset the variable.")
    now = now or datetime.now(UTC)
    try:
        read = read_policy_text(Path(named))
    except PolicyError as error:
        return fail(_NAME, str(error), "`outlast policy check` says it all. The API goes on with what it read before.")
    policy = read.policy
    ending = [
        f"{key.id} of {key.caller} ends on {key.expires:%F}"
        for key in policy.keys
        if key.expires is not None and not key.is_expired(now) and key.expires - now < _ENDS_SOON
    ]
    if ending:
        return warn(_NAME, "; ".join(ending), "`outlast keys create` makes the next one; then revoke the old one.")
    weak = weak_points(read)
    if weak:
        return warn(_NAME, f"{named}: {'; '.join(weak)}", "The page Policy of the documentation has both settings.")
    return ok(_NAME, f"{named}, {counted(sum(not key.is_expired(now) for key in policy.keys), 'key')}")
