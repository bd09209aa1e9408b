"""Which callers share an Apify account, and what each of them may reach on it."""

from outlast.api.access.apify_tokens import policy_token
from outlast.api.access.limits.failed_credentials import digest_of
from outlast.api.access.policy.contracts import Policy, Reach
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import LOCAL
from outlast.api.errors import ApifyTokenMissing
from outlast.api.settings import ApiSettings, parse_entries

_WITH_KEYS = ("key:", "jwt:")
"""Kinds of callers that are given an account. Others come with their own, or are the operator."""


class SharedAccounts:
    """Says how far a caller reaches: all of its account where it is alone there, its own things where it is not."""

    def __init__(self, settings: ApiSettings, policy: PolicySource) -> None:
        """Count the callers of `settings` and of the `policy` in force."""
        self._policy = policy
        self._server_token = settings.apify_token.get_secret_value() if settings.apify_token is not None else ""
        self._named = frozenset(f"key:{entry.partition(':')[0]}" for entry in parse_entries(settings.api_keys))
        self._takes_access_tokens = settings.oauth_issuer is not None
        self._alone = self._found_alone(policy.current)
        policy.on_change(self._take_over)

    def reach_of(self, caller_id: str) -> Reach:
        """What the policy says; without, `own` where other callers may use the account."""
        reach = self._policy.of(caller_id).reach
        if reach is not None:
            return reach
        is_given = caller_id != LOCAL.caller.id and caller_id.startswith(_WITH_KEYS)
        return "own" if is_given and caller_id not in self._alone else "account"

    def _take_over(self, policy: Policy) -> None:
        self._alone = self._found_alone(policy)

    def _found_alone(self, policy: Policy) -> frozenset[str]:
        """The callers with an account that no other one uses."""
        by_account: dict[str, set[str]] = {}
        known = {*self._named, *(key.caller for key in policy.keys), *policy.callers}
        for caller_id in (caller for caller in known if caller.startswith(_WITH_KEYS)):
            by_account.setdefault(self._account_of(caller_id, policy), set()).add(caller_id)
        if self._takes_access_tokens:
            # Anybody with an access token may come, with the account of callers that the policy does not name.
            by_account.setdefault(self._account_of("jwt:", policy), set()).add("jwt:")
        return frozenset(next(iter(callers)) for callers in by_account.values() if len(callers) == 1)

    def _account_of(self, caller_id: str, policy: Policy) -> str:
        """The identity of the account: the digest of its token, or that the token is not there."""
        try:
            token = policy_token(caller_id, policy.of(caller_id))
        except ApifyTokenMissing:
            return "missing"
        return digest_of(token.get_secret_value() if token is not None else self._server_token)
