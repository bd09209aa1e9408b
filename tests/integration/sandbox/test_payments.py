"""What the platform does with payments that come with requests: x402 and Skyfire."""

import base64
import json
from typing import Any

import httpx
import pytest

from tests.integration.sandbox.server import SandboxServer
from tests.support.x402_wallet import Wallet, header_of

X402 = {"x-apify-payment-protocol": "x402"}
START = "/v2/acts/outlast~sleeper/runs"


def asked(sandbox: SandboxServer, method: str, path: str, payment: dict[str, Any] | None) -> httpx.Response:
    signature = {"PAYMENT-SIGNATURE": header_of(payment)} if payment is not None else {}
    body = {"seconds": 0} if method == "POST" else None
    return httpx.request(method, f"{sandbox.url}{path}", headers={**X402, **signature}, json=body, timeout=180)


def terms_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 402, answer.text
    return json.loads(base64.b64decode(answer.headers["payment-required"]))


def settled(sandbox: SandboxServer, wallet: Wallet) -> list[str]:
    """The runs that a wallet has paid."""
    rows = sandbox.control.get("/settlements").json()["settlements"]
    return [row["runId"] for row in rows if row["payer"] == wallet.payer]


def test_whoever_has_not_paid_is_told_the_terms(sandbox: SandboxServer) -> None:
    for path in ("/v2/acts/", "/v2/actor-runs"):
        terms = terms_of(asked(sandbox, "GET", path, None))
        assert terms["x402Version"] == 2
        assert {offer["scheme"] for offer in terms["accepts"]} == {"exact", "upto"}


def test_a_payment_is_taken_for_one_run_and_reads_what_its_payer_has(sandbox: SandboxServer) -> None:
    wallet = Wallet()
    payment = wallet.payment()
    assert asked(sandbox, "GET", "/v2/actor-runs", payment).json()["data"]["total"] == 0
    started = asked(sandbox, "POST", START, payment)
    run_id = started.json()["data"]["id"]
    assert settled(sandbox, wallet) == [run_id]
    again = asked(sandbox, "POST", START, payment)
    assert terms_of(again)["error"] == "This payment was used already; sign another one"
    for one in (payment, wallet.payment()):
        assert asked(sandbox, "GET", f"/v2/actor-runs/{run_id}", one).status_code == 200
    assert asked(sandbox, "GET", f"/v2/actor-runs/{run_id}", Wallet().payment()).status_code == 404
    assert asked(sandbox, "GET", "/v2/actor-runs", payment).json()["data"]["total"] == 1
    assert settled(sandbox, wallet) == [run_id]


def test_a_run_that_is_refused_takes_no_payment(sandbox: SandboxServer) -> None:
    wallet = Wallet()
    payment = wallet.payment()
    assert asked(sandbox, "POST", f"{START}?memory=64", payment).status_code == 400
    assert settled(sandbox, wallet) == []
    assert asked(sandbox, "POST", START, payment).status_code == 201


@pytest.mark.parametrize(
    "changed", [{"value": "1"}, {"to": "0xsomebody"}, {"validBefore": "1"}, {"validAfter": "4000000000"}]
)
def test_a_payment_that_does_not_meet_the_terms_is_refused(sandbox: SandboxServer, changed: dict[str, str]) -> None:
    wallet = Wallet()
    assert terms_of(asked(sandbox, "POST", START, wallet.payment(**changed)))["error"] == "The payment is not valid"
    forged = wallet.payment()
    forged["payload"]["authorization"].update(changed)
    assert terms_of(asked(sandbox, "POST", START, {**wallet.payment(), "payload": forged["payload"]}))
    assert settled(sandbox, wallet) == []


def test_a_skyfire_token_names_its_owner(sandbox: SandboxServer) -> None:
    def start(token: str) -> httpx.Response:
        headers = {"x-apify-payment-protocol": "skyfire", "skyfire-pay-id": token}
        return httpx.post(f"{sandbox.url}{START}", headers=headers, json={"seconds": 0}, timeout=180)

    assert [start("eyFirst").status_code, start("eyFirst").status_code, start("an-id").status_code] == [201, 201, 402]
