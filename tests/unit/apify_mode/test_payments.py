"""Payments that come with calls: the platform's terms, what is kept and shown of them, and connections."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from pydantic import SecretStr

from outlast.activities.contracts import Caller, CallPayment
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.api.catalog.payment_terms import PaymentTerms
from outlast.workflows.tools.apify.selection import SCHEMES
from outlast.workflows.tools.registry import tools_of

_HALF_AN_HOUR = 30 * 60


class _Terms(HTTPServer):
    """A platform that says what it has to be paid, while it is asked well."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.price: int | None = None
        self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(402 if self.server.price else 503)
        if self.server.price:
            terms = {"x402Version": 2, "accepts": [{"amount": str(self.server.price)}]}
            self.send_header("payment-required", base64.b64encode(json.dumps(terms).encode()).decode())
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the interface)
        """Nothing."""


@pytest.fixture
def platform() -> Iterator[_Terms]:
    with _Terms() as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


async def test_terms_are_kept_for_half_an_hour_and_longer_while_they_cannot_be_read(platform: _Terms) -> None:
    now = [0.0]
    terms = PaymentTerms(f"http://127.0.0.1:{platform.server_port}", clock=lambda: now[0])

    async def amount() -> str | None:
        told: Any = await terms.x402()
        return told and told["accepts"][0]["amount"]

    assert [await amount(), await amount()] == [None, None]
    assert platform.asked == 1, "whoever lists tools while the platform is away waits for no second attempt"
    platform.price, now[0] = 5, 31
    assert [await amount(), await amount()] == ["5", "5"]
    platform.price, now[0] = 6, 31 + _HALF_AN_HOUR - 1
    assert await amount() == "5"
    platform.price, now[0] = None, 31 + _HALF_AN_HOUR
    assert await amount() == "5"
    platform.price, now[0] = 6, now[0] + 30
    assert await amount() == "6"
    assert platform.asked == 4


@pytest.mark.parametrize(
    ("schemes", "preferred"),
    [
        (["upto", "exact"], "exact"),
        (["other", "upto"], "upto"),
        (["other", "upto", "exact"], "exact"),
        (["upto"], "upto"),
        (["other", "another"], "other"),
        ([], None),
    ],
)
def test_of_several_terms_those_with_an_exact_amount_come_first_and_then_those_up_to_one(
    schemes: list[str], preferred: str | None
) -> None:
    """As in Apify's own server: beside the list stand the terms of one scheme, for clients that read no list."""
    offers: list[Any] = [{"scheme": scheme, "amount": str(place)} for place, scheme in enumerate(schemes)]
    payment = SCHEMES["x402"].with_terms({"x402Version": 2, "accepts": [*offers, "no terms"]})
    (paid,) = [payment.applied_to(each) for each in tools_of("apify") if each.name == "call-actor"]
    chosen = next((offer for offer in offers if offer["scheme"] == preferred), {})
    told = {"paymentRequired": True, **chosen, **({"accepts": offers} if offers else {})}
    assert paid.meta["x402"] == told


def test_payments_leave_the_connections_of_accounts_alone() -> None:
    sealer = SecretSealer.ephemeral()
    platform = ApifyPlatform(api_base_url="http://127.0.0.1:9", operator_token=SecretStr("t"), sealer=sealer)
    account = platform.client(Caller(id="one"))
    for number in range(300):
        secret = sealer.seal(SecretStr(f"payment {number}"), purpose="other")
        platform.client(Caller(id="other", payment=CallPayment(protocol="x402", secret=secret)))
    assert platform.client(Caller(id="one")) is account
