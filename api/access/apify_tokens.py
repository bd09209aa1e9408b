"""The Apify token that a policy names for a caller, in a variable or a file. The server's own never replaces it."""

import os

from pydantic import SecretStr

from outlast.api.access.policy.contracts import CallerEntry
from outlast.api.errors import ApifyTokenMissing


def policy_token(caller_id: str, entry: CallerEntry) -> SecretStr | None:
    """The token; None when the policy names none for this caller. Raises `ApifyTokenMissing`.

    A file is read each time, so that a token can be replaced while the API runs.
    """
    if entry.apify_token_env is not None:
        return _token(os.environ.get(entry.apify_token_env), caller_id, f"the variable {entry.apify_token_env}")
    if entry.apify_token_file is not None:
        try:
            text = entry.apify_token_file.read_text()
        except (OSError, UnicodeDecodeError):
            text = None
        return _token(text, caller_id, "the file that the policy names")
    return None


def _token(text: str | None, caller_id: str, place: str) -> SecretStr:
    token = (text or "").strip()
    if not token:
        raise ApifyTokenMissing(f"The Apify token of {caller_id} is not in {place}. Tell the operator.")
    return SecretStr(token)
