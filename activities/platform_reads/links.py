"""Links to records, with which anybody may read them. They are made when an answer is sent, and kept nowhere."""

import logging
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform

log = logging.getLogger("outlast.api")

_STORES, _RECORDS = "key-value-stores", "records"


class RecordLinks:
    """Signs the addresses of records for callers who reach them."""

    def __init__(self, platform: ApifyPlatform) -> None:
        """Of stores on `platform`."""
        self._platform = platform

    async def signed(self, caller: Caller, uri: str) -> str:
        """The address of a record with its signature. Any other address is returned as it is, and so is that of a
        record for which the platform gives no signature.

        A payment that came with a call is for the call alone: nothing is asked of the platform with it.
        """
        place = self._record_at(uri)
        if place is None or caller.payment is not None:
            return uri
        store, key = place
        try:
            link = await self._platform.client(caller).key_value_store(store).get_record_public_url(key)
        except Exception as error:  # noqa: BLE001 (the address is right without a signature, too)
            log.warning("A link to a record is not signed: %s", type(error).__name__)
            return uri
        signature = parse_qs(urlsplit(link).query).get("signature")
        return f"{uri}?{urlencode({'signature': signature[0]})}" if signature else uri

    def _record_at(self, uri: str) -> tuple[str, str] | None:
        """The store and the key of a record's address; None for any other."""
        root = f"{self._platform.api_base_url}/v2/{_STORES}/"
        store, *rest = uri.removeprefix(root).split("/", 2)
        if not uri.startswith(root) or "?" in uri or len(rest) != 2 or rest[0] != _RECORDS:
            return None
        return unquote(store), unquote(rest[1])
