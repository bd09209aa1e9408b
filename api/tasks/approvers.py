"""Approvals by another caller than the one whose call it is: the permission, and the view of the task."""

from collections.abc import Mapping

from outlast.api.access.permissions import approver_words
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import Principal
from outlast.api.errors import ApproverNeeded
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import TaskStatus


class Approvers:
    """Approvers of other callers' calls, by the roles in the policy."""

    def __init__(self, policy: PolicySource) -> None:
        self._policy = policy

    def roles_of(self, principal: Principal) -> frozenset[str]:
        """The caller's roles; empty for a key that may not approve."""
        return self._policy.of(principal.caller.id).roles if "approve" in principal.scopes else frozenset()

    def view_of(self, principal: Principal, maker: str | None, task: Task) -> Task | None:
        """The task of `maker` with the approvals that the caller can give. None if there are none."""
        roles = self.roles_of(principal)
        if maker is None or maker == principal.caller.id or task.finished_at is not None or not roles:
            return None
        waiting = {
            key: question
            for key, question in (task.input_requests or {}).items()
            if question.approvers and roles.issuperset(question.approvers)
        }
        return _as_approver_sees(task, waiting) if waiting else None


def require_approver(principal: Principal, maker: str | None, question: InputRequest) -> None:
    """Raise `ApproverNeeded` if another caller than `maker` has to approve."""
    if question.approvers and principal.caller.id == maker:
        approver = approver_words(question.approvers)
        message = f"Nobody approves a call of their own here: {approver} has to, and sees it in GET /v1/handoffs."
        raise ApproverNeeded(message)


def after_approval(task: Task) -> Task:
    """`task` as an approver sees it once it has the answer."""
    return task.model_copy(update={"status": TaskStatus.WORKING, "input_requests": None})


def _as_approver_sees(task: Task, questions: Mapping[str, InputRequest]) -> Task:
    """The task without its session, run, costs, messages and outputs."""
    return Task(
        id=task.id,
        tool=task.tool,
        status=TaskStatus.INPUT_REQUIRED,
        mode=task.mode,
        executor=task.executor,
        actor=task.actor,
        created_at=task.created_at,
        input_requests=dict(questions),
    )
