"""Messages of a tool to the user: to the conversation's events, and to the operator's webhook."""

from typing import Literal

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT
    from outlast.activities.user_messages import WEBHOOK_RETRY_POLICY, Delivery, ResponderActivities

from outlast.activities.contracts import Contract
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.workflows.contracts.sessions import POSTED_SIGNAL, Posted, session_workflow_id
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import tool_errors
from outlast.workflows.stubs.deadline import remaining
from outlast.workflows.stubs.failures import ToolError


class Sent(Contract):
    """Where a message arrived. `refused` is the error when the webhook did not accept it."""

    session: bool
    webhook: bool
    refused: ErrorEnvelope | None = None


class UserMessages:
    """Sends messages to the user on behalf of one call."""

    def __init__(self, call: ToolCall) -> None:
        """Send to the conversation of `call`."""
        self._call = call

    async def post(self, kind: Literal["update", "reaction"], text: str) -> Sent:
        """Send `text` once to every place that exists. Raises `ToolError` when there is none."""
        task_id = workflow.info().workflow_id
        in_session = await self._publish(
            Posted(kind=kind, text=text, task_id=task_id, tool=self._call.tool, message_id=self._call.message_id)
        )
        refused: ErrorEnvelope | None = None
        delivered = False
        try:
            with tool_errors(self._call.tool):
                delivered = await self._deliver(kind, text, task_id)
        except ToolError as error:
            refused = error.envelope
        if not in_session and not delivered:
            raise ToolError(refused or self._nobody_listens())
        return Sent(session=in_session, webhook=delivered, refused=refused)

    async def _publish(self, posted: Posted) -> bool:
        """Add an event to the session; False when the call has no session, or an operator ended it."""
        if self._call.session_id is None:
            return False
        session = workflow.get_external_workflow_handle(
            session_workflow_id(self._call.caller.id, self._call.session_id)
        )
        try:
            await session.signal(POSTED_SIGNAL, posted)
        except ApplicationError as error:
            workflow.logger.warning("Session %s takes no events: %s", self._call.session_id, error)
            return False
        return True

    async def _deliver(self, kind: Literal["update", "reaction"], text: str, task_id: str) -> bool:
        """Post to the webhook; False when the operator has configured none: only the worker knows."""
        delivery = Delivery(
            kind=kind,
            text=text,
            task_id=task_id,
            session_id=self._call.session_id,
            message_id=self._call.message_id,
        )
        answer = await workflow.execute_activity_method(
            ResponderActivities.deliver_to_webhook,
            delivery,
            start_to_close_timeout=READ_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=remaining(self._call),
            heartbeat_timeout=READ_HEARTBEAT_TIMEOUT,
            retry_policy=WEBHOOK_RETRY_POLICY,
            summary=f"deliver {kind}",
        )
        return answer.delivered

    def _nobody_listens(self) -> ErrorEnvelope:
        return ErrorEnvelope.permanent(
            ErrorCategory.VALIDATION,
            self._call.tool,
            "Nobody would see it: the call belongs to no session that takes events, and there is no webhook.",
            hint=(
                "Name the conversation in the call (`session_id`; over MCP `outlast/session-id` in `_meta`), or have "
                "the operator set OUTLAST_RESPONDER_WEBHOOK_URL. Do not call again without that."
            ),
        )
