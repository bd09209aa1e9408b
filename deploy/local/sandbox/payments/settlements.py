"""The payments that were taken, each for one run."""

from __future__ import annotations

import sqlite3

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.payments.contracts import Payment
from outlast.deploy.local.sandbox.payments.x402 import payment_required


class Settlements:
    """The table of payments by their ids."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def settle(self, payment: Payment, run_id: str) -> None:
        """Takes a payment. Raises `ApiError` 402 for one that was taken before."""
        if payment.payment_id is None:
            return
        try:
            self._database.run(
                "INSERT INTO settlements (payment_id, payer, amount, run_id) VALUES (?, ?, ?, ?)",
                (payment.payment_id, payment.payer, payment.amount, run_id),
            )
        except sqlite3.IntegrityError as error:
            raise payment_required("This payment was used already; sign another one") from error

    def all(self) -> list[JsonObject]:
        """Every payment that was taken."""
        rows = self._database.rows("SELECT payment_id, payer, amount, run_id FROM settlements")
        return [
            {"paymentId": row["payment_id"], "payer": row["payer"], "amount": row["amount"], "runId": row["run_id"]}
            for row in rows
        ]
