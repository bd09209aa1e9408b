"""`outlast policy`: check the operator's policy file."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outlast.cli.options import CliError, ExitCode
from outlast.cli.runner import local_command
from outlast.cli.show.output import Output

app = typer.Typer(
    name="policy", no_args_is_help=True, help="Check the policy file: callers, keys, limits, permissions."
)

_FILE_HELP = "The policy file. Default: that of OUTLAST_POLICY_FILE."


@local_command(app)
async def check(output: Output, file: Annotated[Path | None, typer.Argument(help=_FILE_HELP)] = None) -> ExitCode:
    """Find errors in the policy file. The exit code is 1 if there are any."""
    from outlast.api.access.permissions import PermissionRules, idle_roles, idle_rules  # noqa: PLC0415 (tools)
    from outlast.api.access.policy.policy_file import PolicyError, read_policy_text, weak_points  # noqa: PLC0415 (pydantic)

    path = named_file(file)
    try:
        read = read_policy_text(path)
    except PolicyError as error:
        if output.as_json:
            output.document({"ok": False, "file": str(path), "problems": list(error.problems)})
        else:
            for problem in error.problems:
                output.show(f"[bold red]✗[/] {escape(problem)}")
        return ExitCode.FAILED
    policy = read.policy
    warnings = [*idle_rules(PermissionRules.of(policy)), *idle_roles(policy)]
    advice = weak_points(read)
    counts = {"callers": len(policy.callers), "keys": len(policy.keys), "rules": len(policy.rules)}
    if output.as_json:
        output.document({"ok": True, "file": str(path), **counts, "warnings": warnings, "advice": advice})
    else:
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        output.show(f"[green]✓[/] {escape(str(path))}: {words}")
        for line in (*warnings, *advice):
            output.show(f"[yellow]![/] {escape(line)}")
    return ExitCode.OK


@local_command(app)
async def explain(
    output: Output,
    caller: Annotated[str, typer.Argument(help="Id of a caller: `key:NAME`, `apify:ACCOUNT ID` or `local`.")],
    tool: Annotated[str, typer.Argument(help="The tool of the call.")],
    actor: Annotated[str | None, typer.Option(help="The Actor of the call: `user/name`.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help=_FILE_HELP)] = None,
) -> None:
    """Show the decision for a call and the rule behind it: of the file, then of OUTLAST_PERMISSIONS."""
    from outlast.api.access import permissions  # noqa: PLC0415 (tools)
    from outlast.api.access.policy.contracts import PermissionEntry, Policy  # noqa: PLC0415 (pydantic)
    from outlast.api.access.policy.policy_file import PolicyError, read_policy  # noqa: PLC0415 (pydantic)

    try:
        rules = permissions.PermissionRules.parse(os.environ.get("OUTLAST_PERMISSIONS", "")).rules
        small = [PermissionEntry(caller=rule.caller, tool=rule.tool, action=rule.action) for rule in rules]
        policy = read_policy(named_file(file)).over(Policy(rules=tuple(small)))
    except (PolicyError, ValueError) as error:
        raise CliError(str(error), exit_code=ExitCode.FAILED) from error
    pattern = permissions.Rule("*", tool, "allow", "").pattern
    names = (permissions.CallName(pattern), *(permissions.actor_names(actor) if actor else ()))
    ruling = permissions.PermissionRules.of(policy).ruling(caller, names)
    action, rule = (ruling.action, ruling.rule) if ruling else ("allow", None)
    approvers = ruling.approvers if ruling else ()
    holders = [other for other in policy.callers if other != caller and policy.of(other).roles.issuperset(approvers)]
    if output.as_json:
        found: dict[str, object] = {"action": action, "rule": rule, "names": [*dict.fromkeys(n.tool for n in names)]}
        output.document({**found, "approvers": list(approvers), "held_by": holders} if approvers else found)
        return
    output.show(f"[bold]{action}[/]: {escape(rule) if rule else 'no rule applies'}")
    if approvers:
        who = ", ".join(holders) or "nobody"
        output.show(f"approval by {escape(permissions.approver_words(approvers))}: {escape(who)}")


def named_file(given: Path | None) -> Path:
    """Return the policy file of a command. Raises `CliError` if none is named."""
    if given is not None:
        return given
    named = os.environ.get("OUTLAST_POLICY_FILE")
    if not named:
        raise CliError("Name a policy file, or set OUTLAST_POLICY_FILE.", exit_code=ExitCode.USAGE)
    return Path(named)
