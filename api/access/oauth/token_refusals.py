"""Which bearer tokens are access tokens, and why one is refused; without the libraries that read them."""

from outlast.api.errors import Unauthenticated


class TokenRefused(Unauthenticated):
    """The token counts for nothing."""

    def __init__(self, message: str, *, is_guess: bool = True, may_pass: bool = False) -> None:
        """Say why, without any part of the token.

        It is a guess unless its issuer made it, as one whose time is over. It `may_pass` when it may be good soon.
        """
        super().__init__(message)
        self.is_guess = is_guess
        self.may_pass = may_pass


def looks_like_access_token(bearer: str) -> bool:
    """Whether a bearer token has parts, as JWTs have (RFC 7519) and Apify tokens have not."""
    return "." in bearer
