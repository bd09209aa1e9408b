"""Rulings of the operator's rules on a call."""

from collections.abc import Sequence
from typing import Literal, Protocol, get_args

from pydantic import Field

from outlast.activities.contracts import Contract

Action = Literal["allow", "ask", "deny"]
"""Effect of a rule on a call, the strictest last."""


class DecidingRule(Protocol):
    """One of the operator's rules, in whatever form."""

    @property
    def action(self) -> Action:
        """What it does with the call."""
        ...

    @property
    def text(self) -> str:
        """The rule as it was written."""
        ...

    @property
    def approver(self) -> str | None:
        """With `ask`: the role that another caller must have to approve."""
        ...


class PermissionRuling(Contract):
    """The verdict of the operator's rules on one call, decided at the front door."""

    action: Action
    rule: str = Field(description="The rule that decided, as it was written.")
    approvers: tuple[str, ...] = Field(
        default=(),
        description="With `ask`: only another caller who has all of these roles may approve. Empty: anyone.",
    )
    actor: str | None = Field(default=None, description="Full name of the Actor that the call runs, if it is known.")

    @classmethod
    def strictest(cls, rules: Sequence[DecidingRule], actor: str | None = None) -> "PermissionRuling | None":
        """The ruling where each of `rules` is about a name of the call; None without any.

        The strictest decides. Where several ask, the approver needs the roles that they demand together.
        """
        if not rules:
            return None
        decides = max(rules, key=lambda rule: (get_args(Action).index(rule.action), rule.approver is not None))
        roles = {rule.approver for rule in rules if rule.action == "ask" and rule.approver}
        approvers = tuple(sorted(roles)) if decides.action == "ask" else ()
        return cls(action=decides.action, rule=decides.text, approvers=approvers, actor=actor)
