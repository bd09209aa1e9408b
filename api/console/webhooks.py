"""Webhooks, and the events that were sent to them or wait."""

from typing import Any

from outlast.api.console.framework import Context, Section, View
from outlast.api.errors import BadRequest
from outlast.contracts.webhooks import DeliveryListing, ReplayRequest, WebhookChanges

section = Section("Webhooks")
_STATES = ("undelivered", "delivering", "delivered")


@section.page("webhooks", "webhooks.html", live=("addresses", "deliveries"))
async def webhooks(view: View) -> Context:
    """The addresses, and deliveries by state."""
    state = view.of_query("status") or "undelivered"
    fields: dict[str, Any] = {
        "status": state,
        "webhook_id": view.of_query("webhook"),
        "page_token": view.of_query("page"),
    }
    page = await view.services.deliveries.list(view.caller, DeliveryListing.model_validate(fields))
    return {
        "webhooks": (await view.services.webhooks.list(view.caller)).webhooks,
        "deliveries": page.deliveries,
        "next_page": page.next_page_token,
        "states": _STATES,
        "state": state,
        "webhook": view.of_query("webhook"),
    }


@section.page("deliveries/{delivery_id}", "delivery.html", live=("head",))
async def delivery(view: View) -> Context:
    """One event on its way to an address."""
    return {"delivery": await view.services.deliveries.get(view.caller, view.of_path("delivery_id"))}


@section.action("webhooks/{webhook_id}/{act}", "call")
async def change(view: View) -> str:
    """Test, enable or disable a webhook, or send again what it has not received."""
    webhook_id, services = view.of_path("webhook_id"), view.services
    match view.of_path("act"):
        case "test":
            return f"deliveries/{(await services.deliveries.test(view.caller, webhook_id)).id}"
        case "replay":
            await services.deliveries.replay_all(view.caller, ReplayRequest(webhook_id=webhook_id))
        case "enable" | "disable" as act:
            await services.webhooks.edit(view.caller, webhook_id, WebhookChanges(enabled=act == "enable"))
        case other:
            raise BadRequest(f"A webhook cannot be asked to {other[:50]!r}.")
    return f"webhooks?webhook={webhook_id}"


@section.action("deliveries/{delivery_id}/replay", "call")
async def replay(view: View) -> str:
    """Send an event again."""
    return f"deliveries/{(await view.services.deliveries.replay(view.caller, view.of_path('delivery_id'))).id}"
