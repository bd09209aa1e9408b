"""WebhookSubscriptionsWorkflow: what one caller has subscribed. Updates are serial; the memo says it all."""

from temporalio import workflow

from outlast.activities.webhooks.contracts import (
    CREATE_UPDATE,
    DISABLE_SIGNAL,
    EDIT_UPDATE,
    REMOVE_UPDATE,
    ROTATE_UPDATE,
    SUBSCRIPTIONS_MEMO,
    SUBSCRIPTIONS_WORKFLOW,
    CreateInput,
    DisableInput,
    EditInput,
    RemoveInput,
    RotateInput,
    SubscriptionAnswer,
    SubscriptionsState,
    WebhookSubscription,
)


@workflow.defn(name=SUBSCRIPTIONS_WORKFLOW)
class WebhookSubscriptionsWorkflow:
    """Never ends; it continues as new. One per caller."""

    @workflow.init
    def __init__(self, state: SubscriptionsState) -> None:
        """Continue from `state`."""
        self._state = state

    @workflow.run
    async def run(self, _state: SubscriptionsState) -> None:
        """Keep the subscriptions."""
        await workflow.wait_condition(workflow.info().is_continue_as_new_suggested)
        await workflow.wait_condition(workflow.all_handlers_finished)
        # Without it, the next run's memo would be that with which this one began.
        workflow.continue_as_new(self._state, memo={SUBSCRIPTIONS_MEMO: self._state})

    @workflow.update(name=CREATE_UPDATE)
    def create_webhook(self, request: CreateInput) -> SubscriptionAnswer:
        """Add a subscription, unless it is there or the caller has as many as it may."""
        there = self._state.get(request.subscription.id)
        if there is not None:
            return SubscriptionAnswer(subscription=there)
        if len(self._state.subscriptions) >= request.most:
            return SubscriptionAnswer(refusal="too_many")
        self._now_has((*self._state.subscriptions, request.subscription))
        return SubscriptionAnswer(subscription=request.subscription)

    @workflow.update(name=EDIT_UPDATE)
    def edit_webhook(self, request: EditInput) -> SubscriptionAnswer:
        """Change what `request` says. Switched on again, a subscription forgets why it was off."""
        there = self._state.get(request.webhook_id)
        if there is None:
            return SubscriptionAnswer(refusal="not_found")
        changes: dict[str, object] = request.model_dump(include={"name", "batch_items", "enabled"}, exclude_none=True)
        if request.events is not None:
            changes["events"] = request.events
        if request.url is not None:
            changes["endpoint"] = there.endpoint.model_copy(update={"url": request.url})
        if request.enabled:
            changes["disabled_reason"] = None
        return self._changed(there, changes)

    @workflow.update(name=ROTATE_UPDATE)
    def rotate_secret(self, request: RotateInput) -> SubscriptionAnswer:
        """Sign with a new secret; for a while with the one before as well."""
        there = self._state.get(request.webhook_id)
        if there is None:
            return SubscriptionAnswer(refusal="not_found")
        endpoint = there.endpoint.rotated(request.secret, old_until=request.old_until)
        if endpoint.url == request.read_url:
            endpoint = endpoint.model_copy(update={"url": request.url})
        return self._changed(there, {"endpoint": endpoint})

    @workflow.update(name=REMOVE_UPDATE)
    def remove_webhook(self, request: RemoveInput) -> SubscriptionAnswer:
        """Remove a subscription."""
        there = self._state.get(request.webhook_id)
        if there is None:
            return SubscriptionAnswer(refusal="not_found")
        self._now_has(tuple(one for one in self._state.subscriptions if one.id != there.id))
        return SubscriptionAnswer(subscription=there)

    @workflow.signal(name=DISABLE_SIGNAL)
    def disable_webhook(self, request: DisableInput) -> None:
        """Switch a subscription off, and say why."""
        there = self._state.get(request.webhook_id)
        if there is not None and there.enabled:
            self._changed(there, {"enabled": False, "disabled_reason": request.reason})

    def _changed(self, there: WebhookSubscription, changes: dict[str, object]) -> SubscriptionAnswer:
        changed = there.model_copy(update={**changes, "updated_at": workflow.now()})
        self._now_has(tuple(changed if one.id == there.id else one for one in self._state.subscriptions))
        return SubscriptionAnswer(subscription=changed)

    def _now_has(self, subscriptions: tuple[WebhookSubscription, ...]) -> None:
        self._state = self._state.model_copy(update={"subscriptions": subscriptions})
        workflow.upsert_memo({SUBSCRIPTIONS_MEMO: self._state})
