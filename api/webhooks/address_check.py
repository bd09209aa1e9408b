"""The rules on addresses of webhooks, as far as an address alone tells. Connections are judged where they are made."""

import ipaddress
from contextlib import suppress

from pydantic import SecretStr

from outlast.activities.web.address_rules import AddressNotAllowed, AddressRules, WebAddress
from outlast.api.webhooks.errors import WebhookRefused


class WebhookAddresses:
    """Refuses addresses that no delivery would reach, before anything is kept."""

    def __init__(self, *, allow_private: bool) -> None:
        """Apply the rules on pages that are fetched for users."""
        self._rules = AddressRules(allow_private=allow_private)

    def check(self, url: SecretStr) -> None:
        """Raise `WebhookRefused` for an address that may not be reached. The error does not contain it."""
        try:
            address = WebAddress.parse(url.get_secret_value())
            self._rules.check(address)
            with suppress(ValueError):
                self._rules.check_resolved(address.host, address.port, [ipaddress.ip_address(address.host)])
        except AddressNotAllowed as error:
            raise WebhookRefused(
                f"The webhook's address may not be reached: {error.reason}. Give the http or https address of a "
                "public web server."
            ) from None
