"""`/v1/webhooks`: notifications about your tasks and batches, and their deliveries."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import JSONResponse

from outlast.api.http.dependencies import (
    CallerDep,
    CancellerDep,
    IdempotencyKey,
    KnownParametersRoute,
    ServicesDep,
    SubjectDep,
    SubjectsDep,
)
from outlast.api.http.problems import documented_problems
from outlast.contracts import webhooks as contracts

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=KnownParametersRoute)

WebhookId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the webhook.")]
DeliveryId = Annotated[str, Path(min_length=1, max_length=400, description="Id of the delivery.")]
_PRIVATE = {"Cache-Control": "private, no-store"}


@router.post(
    "", status_code=201, response_model=contracts.Webhook, responses=documented_problems(401, 403, 409, 422, 503)
)
async def create_webhook(
    body: contracts.WebhookRequest, services: ServicesDep, caller: CallerDep, key: IdempotencyKey
) -> JSONResponse:
    """Subscribe an address to events of your tasks and batches. It takes effect within five seconds.

    Events are signed as in Standard Webhooks. The response contains the secret that signs them, which is not shown
    again.
    """
    webhook = await services.webhooks.create(caller, body, idempotency_key=key)
    content = webhook.model_dump(mode="json", exclude_none=True)
    headers = {**_PRIVATE, "Location": f"/v1/webhooks/{webhook.id}"}
    return JSONResponse(content, status_code=201, headers=headers)


@router.get("", responses=documented_problems(401, 503))
async def list_webhooks(services: ServicesDep, caller: SubjectDep) -> contracts.WebhookList:
    """Your webhooks, without their secrets."""
    return await services.webhooks.list(caller)


@router.get("/deliveries", responses=documented_problems(400, 401, 503))
async def list_deliveries(
    services: ServicesDep, subject: SubjectsDep, listing: Annotated[contracts.DeliveryListing, Query()]
) -> contracts.DeliveryPage:
    """Events that were not delivered, that are being delivered, or that were delivered."""
    return await services.deliveries.list(subject.caller, listing, every=subject.every)


@router.post("/deliveries/replay", status_code=202, responses=documented_problems(401, 403, 422, 429, 503))
async def replay_undelivered(
    body: contracts.ReplayRequest, services: ServicesDep, caller: CallerDep
) -> contracts.Replayed:
    """Send undelivered events again, each with its id: all of them, or those of one webhook."""
    return await services.deliveries.replay_all(caller, body)


@router.get("/deliveries/{delivery_id}", responses=documented_problems(401, 404, 503))
async def get_delivery(delivery_id: DeliveryId, services: ServicesDep, caller: SubjectDep) -> contracts.Delivery:
    """One event for one webhook: the number of attempts, the last error, the time of the next attempt."""
    return await services.deliveries.get(caller, delivery_id)


@router.post(
    "/deliveries/{delivery_id}/replay", status_code=202, responses=documented_problems(401, 403, 404, 409, 429, 503)
)
async def replay_delivery(delivery_id: DeliveryId, services: ServicesDep, caller: CallerDep) -> contracts.Delivery:
    """Send an event again, with its id, even if it was delivered."""
    return await services.deliveries.replay(caller, delivery_id)


@router.get("/{webhook_id}", responses=documented_problems(401, 404, 503))
async def get_webhook(webhook_id: WebhookId, services: ServicesDep, caller: SubjectDep) -> contracts.Webhook:
    """One webhook, without its secret."""
    return await services.webhooks.get(caller, webhook_id)


@router.patch("/{webhook_id}", responses=documented_problems(401, 403, 404, 422, 503))
async def update_webhook(
    webhook_id: WebhookId, body: contracts.WebhookChanges, services: ServicesDep, caller: CallerDep
) -> contracts.Webhook:
    """Change a webhook. Events that are being delivered go to the new address, too."""
    return await services.webhooks.edit(caller, webhook_id, body)


@router.delete("/{webhook_id}", status_code=204, responses=documented_problems(401, 403, 404, 503))
async def delete_webhook(webhook_id: WebhookId, services: ServicesDep, caller: CancellerDep) -> Response:
    """Remove a webhook. Events that are being delivered to it are dropped."""
    await services.webhooks.remove(caller, webhook_id)
    return Response(status_code=204)


@router.post(
    "/{webhook_id}/rotate", response_model=contracts.Webhook, responses=documented_problems(401, 403, 404, 422, 503)
)
async def rotate_secret(
    webhook_id: WebhookId, body: contracts.RotationRequest, services: ServicesDep, caller: CallerDep
) -> JSONResponse:
    """Sign with a new secret, which the response contains. During the grace period, the old secret also signs."""
    webhook = await services.webhooks.rotate(caller, webhook_id, body)
    return JSONResponse(webhook.model_dump(mode="json", exclude_none=True), headers=_PRIVATE)


@router.post("/{webhook_id}/test", status_code=202, responses=documented_problems(401, 403, 404, 429, 503))
async def send_test(webhook_id: WebhookId, services: ServicesDep, caller: CallerDep) -> contracts.Delivery:
    """Send a `webhook.test` event. The delivery shows its result."""
    return await services.deliveries.test(caller, webhook_id)
