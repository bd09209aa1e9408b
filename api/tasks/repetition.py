"""The call behind a task, as people read it, and the same call again as a new task."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue
from pydantic_core import from_json
from temporalio import client as temporal

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import SealError, StoreUnavailable
from outlast.activities.object_store import KeptParts
from outlast.activities.secrets import SecretSealer, masked, open_values, part_of
from outlast.api.access.principal import Principal
from outlast.api.audit.log import AuditLog
from outlast.api.audit.records import AuditEvent
from outlast.api.errors import InvalidCall, NotRepeatable, OutputStoreUnavailable, TaskNotFound
from outlast.api.tasks.client import TaskClient
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.history_details import recorded_call
from outlast.api.temporal.task_view import memo_model
from outlast.contracts.tasks import AgainRequest, ConnectedTaskRequest, Task, TaskCall
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.tool_calls import CallOptions, TaskSummary, ToolCall, changed_budget

_NOT_TAKEN_OVER = {"reuse": None, "webhooks": ()}
"""Options that a repetition does not take over: it is a new call, and secrets of webhooks cannot be read back."""


@dataclass(frozen=True)
class Repetitions:
    """Reads recorded calls and makes them again."""

    client: temporal.Client
    tasks: TaskClient
    sealer: SecretSealer
    kept: KeptParts
    audit: AuditLog

    async def call_of(self, principal: Principal, task_id: str) -> TaskCall:
        """The call of a task that `principal` may read. Secrets are masked, large parts are references.

        Raises `TaskNotFound`.
        """
        owner = await self.tasks.readable_by(principal, task_id, "call")
        description = await self.tasks.described(owner, task_id)
        call, summary = await self._recorded(description)
        return TaskCall(
            task_id=task_id,
            caller=owner.id,
            tool=call.tool,
            mode=call.mode,
            actor=call.actor or (summary.actor if summary is not None else None),
            server=call.server.server if call.server is not None else None,
            arguments=cast(JsonObject, masked(call.arguments)),
            changes=call.changes,
            options=call.options.model_copy(update={"webhooks": ()}),
            session_id=call.session_id,
            message_id=call.message_id,
            tool_call_id=call.tool_call_id,
            batch_id=call.batch_id,
            schedule_id=call.schedule_id,
            again_of=summary.again_of if summary is not None else None,
            permission=call.permission,
        )

    async def again(
        self, principal: Principal, task_id: str, request: AgainRequest, *, idempotency_key: str | None = None
    ) -> Task:
        """Make the call of a task again, with the changes of `request`, in a new task of the same caller.

        It is checked by the current rules and limits of its caller. The same key and request give the same task.
        Nobody makes calls for another caller, not even with `admin`: who did could approve them alone, and send
        secrets of the caller elsewhere. Raises `TaskNotFound`, `NotRepeatable`, and as `TaskClient.start`.
        """
        async with self.audit.action(AuditEvent.TASK_REPEATED, principal.caller, task=task_id) as action:
            owner = principal.caller
            call, _ = await self._recorded(await self.tasks.described(owner, task_id))
            if call.is_paid:
                raise NotRepeatable(
                    f"A payment that came with the call paid for task {task_id}, and is spent. Call {call.tool} again "
                    "with another payment."
                )
            wanted = ConnectedTaskRequest(
                tool=call.tool,
                mode=request.mode or call.mode,
                arguments={**await self._opened(call, owner, task_id), **(request.arguments or {})},
                options=_options(call.options, request.options),
                tool_mask=request.tool_mask if request.tool_mask is not None else call.tool_mask,
                offered_tools=call.offered_tools,
                again_of=task_id,
            )
            key = f"again {task_id} {idempotency_key}" if idempotency_key is not None else None
            task = await self.tasks.start(owner, wanted, idempotency_key=key)
            action.note(tool=call.tool, detail=f"again as {task.id}")
            return task

    async def _recorded(
        self, description: temporal.WorkflowExecutionDescription
    ) -> tuple[ToolCall, TaskSummary | None]:
        with temporal_errors(missing=TaskNotFound(f"The history of task {description.id} is gone.")):
            summary = await memo_model(description, memo.SUMMARY, TaskSummary)
            return await recorded_call(self.client, description), summary

    async def _opened(self, call: ToolCall, owner: Caller, task_id: str) -> JsonObject:
        """The arguments with their large parts, in the clear. Raises `InvalidCall`, `OutputStoreUnavailable`."""
        try:
            whole = await self._whole(call.arguments, task_id)
            return cast(JsonObject, open_values(whole, self.sealer, purpose=owner.id))
        except StoreUnavailable as error:
            message = "The store that keeps large inputs does not answer. Nothing was started; try again."
            raise OutputStoreUnavailable(message) from error
        except ToolFailure as error:
            raise InvalidCall(error.envelope) from error
        except SealError as error:
            envelope = ErrorEnvelope.permanent(
                ErrorCategory.AUTHENTICATION, call.tool, f"Secrets of the call cannot be opened: {error}"
            )
            raise InvalidCall(envelope) from error

    async def _whole(self, value: JsonValue, task_id: str) -> JsonValue:
        if part_of(value) is not None:
            text = await self.kept.text_of(value, task_id=task_id)
            return cast(JsonValue, await asyncio.to_thread(from_json, text))
        if isinstance(value, Mapping):
            return {name: await self._whole(member, task_id) for name, member in value.items()}
        return value


def _options(recorded: CallOptions, changes: CallOptions | None) -> CallOptions:
    if changes is None:
        return recorded.model_copy(update=_NOT_TAKEN_OVER)
    given = {name: getattr(changes, name) for name in changes.model_fields_set}
    budget = changed_budget(recorded.budget, changes.budget)
    return recorded.model_copy(update={**_NOT_TAKEN_OVER, **given, "budget": budget, "reuse": None})
