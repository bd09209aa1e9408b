"""The spans of workflows and activities: a tool call, a turn, and each attempt of each of their activities.

A workflow's span begins once and ends once, whichever workers it runs on: its id follows from the workflow, and nothing
is sent while it is replayed (`temporalio.contrib.opentelemetry`). Names and attributes follow OpenTelemetry's semantic
conventions for generative AI.
"""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError, FailureError
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)
from temporalio.workflow import ContinueAsNewError

from outlast.workflows.contracts.failed_tasks import outcome_of
from outlast.workflows.contracts.sessions import TurnInput, TurnResult
from outlast.workflows.contracts.tool_calls import ToolCall, ToolOutcome
from outlast.workflows.tool_call import ToolCallWorkflow
from outlast.workflows.turn import TurnWorkflow

_TRACED = frozenset({ToolCallWorkflow.__name__, TurnWorkflow.__name__})
"""Workflows with a beginning and an end. The others live for weeks and serve many calls: each of their activities
begins its own trace."""


@dataclass(frozen=True)
class _Described:
    name: str
    attributes: Mapping[str, str]


class CallSpans(Interceptor):
    """Makes the spans of a worker."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (the SDK's name)
        """Span each attempt of an activity."""
        return _ActivitySpans(next)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002, ARG002 (the SDK's name)
    ) -> type[WorkflowInboundInterceptor]:
        """Span each tool call and each turn."""
        return _WorkflowSpans


class _ActivitySpans(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        info = activity.info()
        attributes: dict[str, str | int | float] = {
            "outlast.task.id": info.workflow_id or "",
            "outlast.activity.attempt": info.attempt,
            "outlast.activity.queued_seconds": _seconds_queued(info),
        }
        with trace.get_tracer("outlast.worker").start_as_current_span(
            info.activity_type,
            context=None if info.workflow_type in _TRACED else Context(),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await super().execute_activity(input)
            except Exception as error:
                _failed(span, _kind_of(error))
                raise


def _seconds_queued(info: activity.Info) -> float:
    """Time that this attempt waited for a worker."""
    return max((info.started_time - info.current_attempt_scheduled_time).total_seconds(), 0.0)


class _WorkflowSpans(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002 (the SDK's name)
        described = _described(input.args)
        if described is None:
            return await super().execute_workflow(input)
        span = trace.get_tracer("outlast.worker").start_span(described.name, attributes=described.attributes)
        with _current(span):
            try:
                result = await super().execute_workflow(input)
            except (FailureError, asyncio.CancelledError, ContinueAsNewError) as error:
                # Anything else is no end: the worker gives the workflow up, and another one goes on with the same span.
                if (outcome := outcome_of(error)) is not None:
                    _describe_end(span, outcome)
                elif not isinstance(error, ContinueAsNewError):
                    _failed(span, _kind_of(error))
                span.end()
                raise
        _describe_end(span, result)
        span.end()
        return result


@contextmanager
def _current(span: Span) -> Generator[None]:
    token = contexts.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        contexts.detach(token)


def _described(arguments: Sequence[Any]) -> _Described | None:
    match arguments:
        case [ToolCall() as call]:
            return _Described(
                f"execute_tool {call.tool}",
                _present(
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": call.tool,
                        "gen_ai.tool.type": "function",
                        "gen_ai.tool.call.id": workflow.info().workflow_id,
                        "gen_ai.conversation.id": call.session_id,
                        "outlast.task.id": workflow.info().workflow_id,
                        "outlast.caller.id": call.caller.id,
                        "outlast.mode": call.mode,
                    }
                ),
            )
        case [TurnInput() as turn]:
            return _Described(
                "invoke_agent outlast",
                _present(
                    {
                        "gen_ai.operation.name": "invoke_agent",
                        "gen_ai.agent.name": "outlast",
                        "gen_ai.conversation.id": turn.session_id,
                        "gen_ai.provider.name": turn.provider_id,
                        "gen_ai.request.model": turn.model_id,
                        "outlast.turn.id": turn.turn_id,
                        "outlast.caller.id": turn.caller.id,
                    }
                ),
            )
        case _:
            return None


def _present(attributes: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value is not None}


def _describe_end(span: Span, result: object) -> None:
    match result:
        case ToolOutcome():
            if result.run is not None:
                span.set_attribute("outlast.run.id", result.run.run_id)
            if result.result.error is not None:
                _failed(span, result.result.error.category)
            elif result.result.is_error:
                _failed(span, "tool_error")
        case TurnResult():
            span.set_attribute("gen_ai.response.finish_reasons", [result.reason])
            if result.error is not None:
                _failed(span, result.error.category)
        case _:
            pass


def _failed(span: Span, kind: str) -> None:
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


def _kind_of(error: BaseException) -> str:
    return (error.type if isinstance(error, ApplicationError) else None) or type(error).__name__
