"""Errors of requests about webhooks."""

from outlast.api.errors import ApiError


class WebhookNotFound(ApiError):
    """The caller has no such webhook, or no such delivery. One of another caller gives the same error."""

    status = 404
    slug = "webhook-not-found"
    title = "There is no such webhook"


class WebhookRefused(ApiError):
    """The webhook's address may not be reached; nothing was started or changed."""

    status = 422
    slug = "webhook-refused"
    title = "The webhook's address may not be reached"


class TooManyWebhooks(ApiError):
    """The caller has as many webhooks as it may."""

    status = 409
    slug = "too-many-webhooks"
    title = "There are too many webhooks"


class DeliveryRunning(ApiError):
    """The event is being delivered, so it is not sent again."""

    status = 409
    slug = "delivery-running"
    title = "The event is being delivered"
