"""Events about questions: questions asked, hand-offs to the client, answers."""

from collections.abc import Iterator

from pydantic import BaseModel

from outlast.contracts.events import AnswerEvent, HandoffEvent, TaskEventName
from outlast.workflows.contracts.questions import InputAnswer, InputRequest, InputRequests, SubmitInput


class QuestionLog:
    """The open questions, tracked while a history is read."""

    def __init__(self) -> None:
        """None yet."""
        self._open: dict[str, InputRequest] = {}

    def asked(self, now: InputRequests) -> Iterator[tuple[TaskEventName, BaseModel]]:
        """Events for the questions that were not open before."""
        new = {key: request for key, request in now.requests.items() if key not in self._open}
        self._open = dict(now.requests)
        if now.requests:
            yield "input_required", now
        for key, request in new.items():
            if request.handoff is not None:
                yield "isomorphic_handoff", handed_over(key, request)

    def answered(self, submitted: SubmitInput) -> Iterator[tuple[TaskEventName, BaseModel]]:
        """Events for the submitted answers."""
        for key, answer in submitted.answers.items():
            yield "input_answered", _answered(key, self._open.get(key), answer, submitted.answered_by)


def handed_over(key: str, request: InputRequest) -> HandoffEvent:
    """The hand-off that comes with a question asked under `key`; the question must have one."""
    handoff = request.handoff
    assert handoff is not None
    return HandoffEvent(
        key=key,
        kind=handoff.kind,
        audience=handoff.audience,
        tool=handoff.tool,
        phase=handoff.phase,
        message=request.message,
        parameters=handoff.parameters,
        answer_schema=request.requested_schema,
        deadline=handoff.deadline,
        maker=handoff.maker,
        approvers=handoff.approvers,
    )


def _answered(key: str, request: InputRequest | None, answer: InputAnswer, answered_by: str | None) -> AnswerEvent:
    handoff = request.handoff if request else None
    event = AnswerEvent(key=key, action=answer.action, message=answer.message, answered_by=answered_by)
    if handoff is None:
        return event
    shown: dict[str, object] = {"kind": handoff.kind, "tool": handoff.tool, "phase": handoff.phase}
    if handoff.kind == "approval":
        shown |= {name: answer.content.get(name) for name in ("decision", "note")}
    return event.model_copy(update=shown)
