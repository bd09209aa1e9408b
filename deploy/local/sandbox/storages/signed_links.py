"""Signed links: anyone who has one may read its record (Apify API v2, `urlSigningSecretKey`)."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string

_DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase
_SIGNED_CHARS = 30


class SignedLinks:
    """The keys of stores. Links work until the sandbox ends."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def key_of(self, store_id: str) -> str:
        """What the store's owner signs with."""
        return hmac.new(self._secret, store_id.encode(), hashlib.sha256).hexdigest()

    def fits(self, store_id: str, signed: str, signature: str) -> bool:
        """Whether the signature is the one for this text (the key of a record)."""
        digest = hmac.new(self.key_of(store_id).encode(), signed.encode(), hashlib.sha256).hexdigest()
        return hmac.compare_digest(_in_base_62(int(digest[:_SIGNED_CHARS], 16)), signature)


def _in_base_62(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or _DIGITS[0]
