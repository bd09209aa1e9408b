"""The client's contracts against those of the API: fields of answers have a name in the client, or a reason."""

import inspect
from collections.abc import Iterator
from dataclasses import fields
from types import ModuleType
from typing import get_args

from pydantic import BaseModel

from outlast.activities.batches.contracts import BatchOptions, ItemRow, ReusedAnswer
from outlast.activities.conversations import contracts as conversations
from outlast.activities.failures.contracts import ErrorEnvelope, Violation
from outlast.activities.llm import contracts as llm
from outlast.activities.llm.contracts import ModelControls
from outlast.activities.outputs.contracts import FieldSummary, StoredOutput
from outlast.activities.runs.contracts import RunState, UntilMet
from outlast.api.rest.operator_routes import Readiness
from outlast.client.contracts import batches as client_batches
from outlast.client.contracts import events as client_events
from outlast.client.contracts import handoffs as client_handoffs
from outlast.client.contracts import operations as client_operations
from outlast.client.contracts import outputs as client_outputs
from outlast.client.contracts import providers as client_providers
from outlast.client.contracts import schedules as client_schedules
from outlast.client.contracts import sessions as client_sessions
from outlast.client.contracts import tasks as client_tasks
from outlast.client.contracts import tools as client_tools
from outlast.client.contracts import usage as client_usage
from outlast.client.contracts import webhooks as client_webhooks
from outlast.client.contracts.base import Response
from outlast.contracts import (
    batches,
    events,
    operations,
    outputs,
    problems,
    providers,
    saved_calls,
    schedules,
    sessions,
    tasks,
    tools,
    usage,
    webhooks,
)
from outlast.workflows.contracts import questions, tool_calls, turns
from outlast.workflows.schedules.contracts import Interval

ANSWERS: dict[type[BaseModel], type[Response]] = {
    ErrorEnvelope: client_tasks.ToolError,
    Readiness: client_tools.Readiness,
    RunState: client_tasks.Run,
    StoredOutput: client_outputs.StoredOutput,
    Violation: client_tasks.Violation,
    ItemRow: client_batches.BatchRow,
    ReusedAnswer: client_tasks.Reused,
    UntilMet: client_tasks.UntilMet,
    batches.Batch: client_batches.Batch,
    batches.BatchPage: client_batches.BatchPage,
    events.HandoffList: client_handoffs.HandoffList,
    events.OpenHandoff: client_handoffs.OpenHandoff,
    conversations.ImagePart: client_sessions.MessagePart,
    conversations.MediaPart: client_sessions.MessageMedia,
    conversations.ModelMessage: client_sessions.Message,
    conversations.ReasoningPart: client_sessions.MessagePart,
    conversations.TextPart: client_sessions.MessagePart,
    conversations.ToolCallPart: client_sessions.MessagePart,
    conversations.ToolResultPart: client_sessions.MessagePart,
    llm.Usage: client_sessions.Usage,
    operations.OpenTask: client_operations.OpenTask,
    operations.Operations: client_operations.Operations,
    operations.QueueState: client_operations.QueueState,
    operations.TaskCounts: client_operations.TaskCounts,
    operations.WorkerState: client_operations.WorkerState,
    providers.ModelEntry: client_providers.Model,
    providers.ProviderEntry: client_providers.Provider,
    providers.ProviderList: client_providers.ProviderList,
    questions.Handoff: client_tasks.Handoff,
    questions.InputRequest: client_tasks.InputRequest,
    saved_calls.SavedCall: client_schedules.SavedCall,
    saved_calls.SavedCallList: client_schedules.SavedCallList,
    Interval: client_schedules.Interval,
    schedules.DueTimes: client_schedules.DueTimes,
    schedules.Firing: client_schedules.Firing,
    schedules.Schedule: client_schedules.Schedule,
    schedules.SchedulePage: client_schedules.SchedulePage,
    sessions.MessagePage: client_sessions.MessagePage,
    sessions.Session: client_sessions.Session,
    sessions.SessionEntry: client_sessions.SessionEntry,
    sessions.SessionMessage: client_sessions.Message,
    sessions.SessionPage: client_sessions.SessionPage,
    sessions.Turn: client_sessions.Turn,
    sessions.TurnSummary: client_sessions.TurnSummary,
    tasks.Reused: client_tasks.Reused,
    tasks.Task: client_tasks.Task,
    tasks.TaskAnswer: client_tasks.TaskAnswer,
    tasks.TaskPage: client_tasks.TaskPage,
    tool_calls.AudioContent: client_tasks.Content,
    tool_calls.EmbeddedResource: client_tasks.Content,
    tool_calls.ImageContent: client_tasks.Content,
    tool_calls.Progress: client_tasks.Progress,
    tool_calls.ResourceLink: client_tasks.Content,
    tool_calls.TextContent: client_tasks.Content,
    tool_calls.ToolResult: client_tasks.ToolResult,
    tools.ToolList: client_tools.ToolList,
    tools.ToolView: client_tools.Tool,
    turns.Budgets: client_sessions.Budgets,
    turns.Spent: client_sessions.Spent,
    usage.CapUsage: client_usage.CapUsage,
    usage.UsageReport: client_usage.UsageReport,
    usage.UsageRow: client_usage.UsageRow,
    webhooks.Delivery: client_webhooks.Delivery,
    webhooks.DeliveryPage: client_webhooks.DeliveryPage,
    webhooks.Replayed: client_webhooks.Replayed,
    webhooks.Webhook: client_webhooks.Webhook,
    webhooks.WebhookBacklog: client_webhooks.WebhookBacklog,
    webhooks.WebhookList: client_webhooks.WebhookList,
}
"""How the client reads what the API answers."""

EVENTS: tuple[type[BaseModel], ...] = (events.TaskEvent, events.TurnStreamEvent, events.ConversationEvent)
"""Read as `outlast.client.Event`."""

REQUESTS: tuple[type[BaseModel], ...] = (
    ModelControls,
    batches.BatchChanges,
    batches.BatchItem,
    batches.BatchRequest,
    batches.BatchSettings,
    batches.ResultsSelection,
    batches.RetryRequest,
    batches.RowsOf,
    outputs.OutputSelection,
    saved_calls.RunSavedCall,
    saved_calls.SaveCallRequest,
    schedules.BackfillRequest,
    schedules.PauseRequest,
    schedules.Period,
    schedules.SavedCallUse,
    schedules.ScheduleChanges,
    schedules.ScheduleRequest,
    schedules.ScheduledCall,
    sessions.ControlsRequest,
    sessions.MessageRequest,
    sessions.SessionExport,
    sessions.SessionRequest,
    sessions.SessionTitle,
    tasks.ResurrectRequest,
    tasks.SubmittedInput,
    tasks.TaskListing,
    tasks.TaskRequest,
    tools.CallBody,
    usage.UsageQuery,
    webhooks.DeliveryListing,
    webhooks.ReplayRequest,
    webhooks.RotationRequest,
    webhooks.WebhookChanges,
    webhooks.WebhookRequest,
)
"""What the API takes."""

READ_OTHERWISE: dict[type[BaseModel], str] = {
    BatchOptions: "part of a batch, which the client passes on as JSON",
    FieldSummary: "for a person who reads the whole document of an output",
    events.AnswerEvent: "data of an event, which the client passes on as JSON",
    events.BatchEvent: "for the widget of a batch; the client asks for the batch itself",
    events.HandoffChange: "the client gives HandoffEvent with an OpenHandoff",
    events.HandoffEvent: "data of an event, which the client passes on as JSON; OpenHandoff has its fields",
    problems.Problem: "ApiError carries the whole document",
    tasks.ConnectedTaskRequest: "what a connection adds to a request inside the API; no client sends it",
    sessions.ExportedOutput: "a part of an exported session, which the client passes on as JSON",
    sessions.OutputLeftOut: "a part of an exported session, which the client passes on as JSON",
    sessions.ExportedTurn: "a part of an exported session, which the client passes on as JSON",
    tool_calls.BlobResource: "for the program that gets the block of content",
}

UNNAMED: dict[type[BaseModel], dict[str, str]] = {
    RunState: {
        "options": "what the platform was asked for, in its own words",
    },
    StoredOutput: {"fields": "for a person who reads the whole document of an output"},
    conversations.ReasoningPart: {
        "block": "the provider's own object, of use to that provider only",
        "provider_id": "belongs to `block`",
        "model_id": "belongs to `block`",
    },
    conversations.ToolCallPart: {"raw_arguments": "the model's text, of use only where `arguments` is None"},
    tool_calls.EmbeddedResource: {"resource": "for the program that gets the block of content"},
    tool_calls.ResourceLink: {"size": "for the program that gets the block of content"},
    tool_calls.ToolResult: {"meta": "of MCP, for the program that shows the answer"},
}
"""Fields without a name in the client, and why. The client keeps them all the same: `document()` has them."""


def test_every_field_of_an_answer_has_a_name_in_the_client_or_a_reason_to_have_none() -> None:
    unknown = {
        f"{answer.__name__}.{name}"
        for answer, read in ANSWERS.items()
        for name in _names(answer) - _names(read) - set(UNNAMED.get(answer, ()))
    }
    assert unknown == set(), "name them in outlast.client.contracts, or give a reason in UNNAMED"


def test_no_reason_outlives_its_field() -> None:
    stale = {
        f"{answer.__name__}.{name}"
        for answer, reasons in UNNAMED.items()
        for name in reasons
        if name not in _names(answer) or name in _names(ANSWERS[answer])
    }
    assert stale == set()


def test_the_client_requires_no_field_that_the_api_may_leave_out() -> None:
    required = {
        f"{answer.__name__}.{name}"
        for answer, read in ANSWERS.items()
        for name, field in read.model_fields.items()
        if field.is_required() and name not in _names(answer)
    }
    assert required == set()


def test_every_contract_of_the_api_is_compared() -> None:
    own = {
        model
        for module in (
            batches,
            events,
            outputs,
            problems,
            providers,
            saved_calls,
            schedules,
            sessions,
            tasks,
            tools,
            usage,
            webhooks,
        )
        for model in _models_of(module)
    }
    nested = {
        model for answer in ANSWERS for field in answer.model_fields.values() for model in _models_in(field.annotation)
    }
    assert own | nested == {*ANSWERS, *EVENTS, *REQUESTS, *READ_OTHERWISE} & (own | nested)


def test_events_have_the_fields_of_the_api() -> None:
    names = {field.name for field in fields(client_events.Event)}
    assert {tuple(sorted(event.model_fields)) for event in EVENTS} == {tuple(sorted(names))}


def _names(model: type[BaseModel]) -> set[str]:
    """The names that the fields of `model` have in JSON."""
    sent = ((name, field) for name, field in model.model_fields.items() if not field.exclude)
    return {field.serialization_alias or field.alias or name for name, field in sent}


def _models_of(module: ModuleType) -> Iterator[type[BaseModel]]:
    """The public models that `module` defines."""
    for name, value in vars(module).items():
        own = inspect.isclass(value) and value.__module__ == module.__name__
        if own and issubclass(value, BaseModel) and not name.startswith("_"):
            yield value


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models that an annotation names, at any depth."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
