"""Who sees and gives the approval of another caller's call: whoever has all the roles that its rules demand."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from outlast.activities.contracts import Caller
from outlast.api.access.policy.contracts import ALL_SCOPES, CallerEntry, Policy, Scope
from outlast.api.access.policy.source import PolicySource
from outlast.api.access.principal import Principal
from outlast.api.errors import ApproverNeeded
from outlast.api.tasks.admission import Approvers, after_approval, require_approver
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import Handoff, InputRequest
from outlast.workflows.contracts.tool_calls import CarriedRule, PermissionRuling, TaskStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class PolicyOfTest:
    policy = Policy(
        callers={
            "key:both": CallerEntry(roles=frozenset({"finance", "legal"})),
            "key:one": CallerEntry(roles=frozenset({"finance"})),
        }
    )

    def of(self, caller_id: str) -> Any:
        return self.policy.of(caller_id)


def principal(name: str, scopes: frozenset[Scope] = ALL_SCOPES) -> Principal:
    return Principal(Caller(id=f"key:{name}"), scopes)


def question(*approvers: str) -> InputRequest:
    handoff = Handoff(kind="approval", tool="pay", phase="approval", deadline=NOW, approvers=approvers)
    return InputRequest(message="Allow pay?", requested_schema={}, handoff=handoff)


def task(questions: dict[str, InputRequest], **fields: Any) -> Task:
    given = {
        "status_message": "secret plans",
        "cost_usd": 3.0,
        "session_id": "s",
        "actor": "u/a",
        **fields,
    }
    return Task(
        id="task-1",
        tool="pay",
        status=TaskStatus.INPUT_REQUIRED,
        mode="default",
        executor="none",
        created_at=NOW,
        input_requests=questions,
        **given,
    )


def seen_by(who: Principal, of: Task, maker: str | None = "key:maker") -> set[str] | None:
    view = Approvers(cast(PolicySource, PolicyOfTest())).view_of(who, maker, of)
    if view is None:
        return None
    shown = {name for name, value in view.model_dump(exclude_none=True).items() if value not in (False, {}, [])}
    assert shown == {"id", "tool", "status", "mode", "executor", "actor", "created_at", "input_requests"}
    return set(view.input_requests or {})


def test_an_approver_has_every_role_that_the_question_demands() -> None:
    waits = task({"approval": question("finance", "legal")})
    assert seen_by(principal("both"), waits) == {"approval"}
    assert seen_by(principal("one"), waits) is None
    assert seen_by(principal("stranger"), waits) is None


def test_of_several_questions_an_approver_sees_those_that_wait_for_it() -> None:
    waits = task({"first": question("finance"), "second": question("legal"), "own": question()})
    assert seen_by(principal("one"), waits) == {"first"}
    assert seen_by(principal("both"), waits) == {"first", "second"}
    assert seen_by(principal("both"), task({"own": question()})) is None


@pytest.mark.parametrize(
    ("who", "maker", "fields"),
    [
        (principal("both", ALL_SCOPES - {"approve"}), "key:maker", {}),
        (principal("both"), "key:both", {}),
        (principal("both"), None, {}),
        (principal("both"), "key:maker", {"finished_at": NOW}),
    ],
    ids=["key without approve", "maker", "unknown maker", "ended"],
)
def test_nobody_else_sees_anything(who: Principal, maker: str | None, fields: dict[str, Any]) -> None:
    assert seen_by(who, task({"approval": question("finance")}, **fields), maker) is None


def test_only_the_maker_is_refused_an_approval_that_needs_another_caller() -> None:
    with pytest.raises(ApproverNeeded, match="`finance` and `legal`"):
        require_approver(principal("both"), "key:both", question("finance", "legal"))
    require_approver(principal("both"), "key:maker", question("finance", "legal"))
    require_approver(principal("both"), "key:both", question())


def test_once_it_is_approved_a_task_shows_its_approver_no_question() -> None:
    after = after_approval(task({"approval": question("finance"), "second": question("legal")}))
    assert (after.status, after.input_requests) == (TaskStatus.WORKING, None)


def rule(action: str, approver: str | None = None) -> CarriedRule:
    return CarriedRule.model_validate(
        {"tool": "x", "action": action, "text": f"{action}/{approver}", "approver": approver}
    )


@pytest.mark.parametrize(
    ("rules", "action", "text", "approvers"),
    [
        ([rule("ask", role) for role in "dbac"], "ask", "ask/d", ("a", "b", "c", "d")),
        ([rule("ask"), rule("ask", "a"), rule("allow")], "ask", "ask/a", ("a",)),
        ([rule("ask", "a"), rule("deny")], "deny", "deny/None", ()),
        ([rule("allow"), rule("ask")], "ask", "ask/None", ()),
    ],
)
def test_the_strictest_of_several_rules_decides_and_their_roles_add_up(
    rules: list[CarriedRule], action: str, text: str, approvers: tuple[str, ...]
) -> None:
    found = PermissionRuling.strictest(rules)
    assert found is not None
    assert (found.action, found.rule, found.approvers) == (action, text, approvers)
