"""Rules and roles of a policy that have no effect: a word misspelt, most of the time."""

import difflib

from outlast.api.access.permissions import PermissionRules, ids_in
from outlast.api.access.policy.contracts import Policy
from outlast.workflows.tools.loader import base_tools
from outlast.workflows.tools.registry import MODES


def idle_rules(rules: PermissionRules) -> list[str]:
    """One line for each rule whose tool is the name of none."""
    known = {tool.name for mode in MODES for tool in base_tools(mode).tools.values()}
    found: list[str] = []
    for rule in rules.rules:
        pattern = rule.pattern
        is_by_id = bool(ids_in(PermissionRules((rule,))))
        if "*" in pattern or "--" in pattern or pattern.casefold() in known or is_by_id:
            continue
        near = difflib.get_close_matches(pattern, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "write an Actor as `user/name`, or by its id."
        found.append(f"{rule.text}: there is no tool {rule.tool!r}; {hint}")
    return found


def idle_roles(policy: Policy) -> list[str]:
    """One line for each role that rules demand and nobody has: nobody can approve such calls."""
    held = policy.defaults.roles.union(*(policy.of(caller).roles for caller in policy.callers))
    demanded = dict.fromkeys(entry.approver for entry in policy.rules if entry.approver)
    return [
        f"no caller has the role {role!r}: calls that need its approval wait until they time out"
        for role in demanded
        if role not in held
    ]
