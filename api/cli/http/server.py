"""Where the server is, and the credential for it."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from outlast.api.cli.errors import BadInput
from outlast.api.cli.options import Options
from outlast.deploy.local.state import StackState, find_running

DEFAULT_URL = "http://127.0.0.1:8400"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Server:
    """An API's address, the credential for it, and what to do when it does not answer."""

    url: str
    token: SecretStr | None
    hint: str

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return urlsplit(self.url).hostname in _LOOPBACK


def find_server(options: Options) -> Server:
    """The named server, else that of the stack on the data directory, else the default address.

    Raises `BadInput` for an address or a token that cannot be one.
    """
    token = _checked_token(options.token)
    if options.url:
        hint = "Check the address (--url or OUTLAST_URL). `outlast up` starts a server on this machine."
        return Server(_checked_url(options.url), token, hint)
    state = running_stack(options.data_dir)
    if state is not None and state.addresses.api_url is not None:
        hint = f"The stack on {options.data_dir} is running, its API is not ready: `outlast doctor` says more."
        return Server(state.addresses.api_url, token, hint)
    hint = (
        f"No stack runs on the data directory {options.data_dir}. Start one with `outlast up`, or name a server with "
        "--url or OUTLAST_URL."
    )
    return Server(DEFAULT_URL, token, hint)


def running_stack(data_dir: Path) -> StackState | None:
    """The stack that runs on this directory; None also when that cannot be seen from here."""
    try:
        return find_running(data_dir)
    except OSError:  # not a directory, or not ours to read
        return None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise BadInput(f"{url!r} is not the address of a server.", hint="It reads like http://127.0.0.1:8400.")
    return url.rstrip("/")


def _checked_token(token: str | None) -> SecretStr | None:
    """The token, which has to fit into a header; it is not repeated in the error."""
    if not token:
        return None
    if not _TOKEN.fullmatch(token.strip()):
        raise BadInput(
            "The token holds characters that no token has.",
            hint="Check OUTLAST_TOKEN or --token for spaces and line ends.",
        )
    return SecretStr(token.strip())
