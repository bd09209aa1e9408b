"""Batches: their progress, what failed in them and why, and how to continue them."""

import json
from collections import Counter
from contextlib import aclosing
from typing import Any

from outlast.api.batches.results import result_pieces
from outlast.api.console.framework import Context, Form, Section, View
from outlast.api.console.overview import words_without_numbers
from outlast.api.errors import ApiError
from outlast.contracts.batches import BatchChanges, ResultsSelection, RetryRequest

section = Section("Batches")
_SHOWN_RESULTS = 50
_READ_FAILURES = 1_000


@section.page("batches", "batches.html", live=("list",))
async def batches(view: View) -> Context:
    """The batches, open ones first."""
    page = await view.services.batches.list(view.caller, page_size=25, page_token=view.of_query("page"))
    return {"batches": page.batches, "next_page": page.next_page_token}


@section.page("batches/{batch_id}", "batch.html", live=("head", "results"))
async def batch(view: View) -> Context:
    """A batch: bar, rate, money, why it stopped, failures by reason, and results."""
    found = await view.services.batches.describe(view.caller, view.of_path("batch_id"))
    status = view.of_query("status")
    failures = await _rows(view, found.id, "failed", _READ_FAILURES) if found.failed else []
    reasons = Counter(
        (str((row.get("error") or {}).get("category", "")), words_without_numbers(_message(row))) for row in failures
    )
    return {
        "batch": found,
        "reasons": [(category, words, count) for (category, words), count in reasons.most_common(10)],
        "are_all_read": len(failures) >= found.failed,
        "results": await _rows(view, found.id, status, _SHOWN_RESULTS),
        "status": status,
        "title": f"{found.name or found.tool}: {found.ended} of {found.total}",
    }


async def _rows(view: View, batch_id: str, status: str | None, limit: int) -> list[dict[str, Any]]:
    """The first results with a status, newest last; none while they cannot be read."""
    selection = ResultsSelection.model_validate({"status": status, "limit": limit})
    try:
        found = await view.services.batches.describe(view.caller, batch_id)
        reader = await view.services.outputs.open(view.caller, found.results)
        async with aclosing(result_pieces(reader, selection)) as pieces:
            lines = b"".join([piece async for piece in pieces]).splitlines()
    except ApiError:
        return []
    return [json.loads(line) for line in lines]


def _message(row: dict[str, Any]) -> str:
    return str((row.get("error") or {}).get("message", "It failed."))


@section.action("batches/{batch_id}/cancel", "cancel")
async def cancel(view: View) -> str:
    """Cancel a batch."""
    return f"batches/{(await view.services.batches.cancel(view.caller, view.of_path('batch_id'))).id}"


@section.action("batches/{batch_id}/retry", "call")
async def retry(view: View) -> str:
    """Run the failed items again."""
    request = RetryRequest.model_validate(_changes(view.form))
    return f"batches/{(await view.services.batches.retry(view.caller, view.of_path('batch_id'), request)).id}"


@section.action("batches/{batch_id}/resume", "call")
async def resume(view: View) -> str:
    """Run the items that were not started, or were cancelled."""
    changes = BatchChanges.model_validate(_changes(view.form))
    return f"batches/{(await view.services.batches.resume(view.caller, view.of_path('batch_id'), changes)).id}"


def _changes(form: Form) -> dict[str, str]:
    return {"budget_usd": form.text("budget_usd")} if form.text("budget_usd") else {}
