"""What the webhooks that listen are told of a batch."""

from outlast.activities.batches.contracts import BatchState
from outlast.activities.contracts import JsonObject
from outlast.activities.webhooks.contracts import WebhookEventType
from outlast.workflows.batches.contracts import BatchInput
from outlast.workflows.webhooks.announcing import announce


async def announce_batch(batch: BatchInput, state: BatchState, status: str, *, has_ended: bool) -> None:
    """Announce the state of a batch: after a round, or at its end."""
    await announce(
        batch.listeners,
        WebhookEventType.BATCH_COMPLETED if has_ended else WebhookEventType.BATCH_PROGRESS,
        batch_data(batch, state, status),
        caller_id=batch.place.caller_id,
        # Within one run, a retry or a resume, the number of ended items only grows.
        number=state.counts.ended,
        awaits_end=has_ended,
    )


def batch_data(batch: BatchInput, state: BatchState, status: str) -> JsonObject:
    """The data of an event of a batch."""
    place, counts = batch.place, state.counts
    link = f"/v1/batches/{place.batch_id}"
    data: JsonObject = {
        "batch_id": place.batch_id,
        "tool": str(place.call.get("tool", "")),
        "status": status,
        "total": place.items.count,
        **counts.model_dump(),
        "under_way": len(state.under_way),
        "cost_usd": float(state.cost_usd),
        "links": {"batch": link, "results": f"{link}/results"},
    }
    if state.stop is not None:
        data |= {"stopped_by": state.stop.value, "message": (state.stop_words or "")[:500]}
    return data
