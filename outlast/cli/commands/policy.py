"""`outlast policy`: check the operator's policy file."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.errors import CliError, ExitCode
from outlast.cli.options import JsonOption
from outlast.cli.runner import finish
from outlast.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.api.access.policy.contracts import Policy

app = typer.Typer(no_args_is_help=True, help="Check the policy file: callers, keys, limits, caps, permissions.")

FileArgument = Annotated[
    Path | None, typer.Argument(help="The policy file; by default the one that OUTLAST_POLICY_FILE names.")
]


@app.command()
def check(file: FileArgument = None, as_json: JsonOption = False) -> None:
    """Say what is wrong with the policy file. Exit code 1 when something is."""
    output = Output(as_json=as_json)
    finish(output, lambda: _check(output, file))


@app.command()
def explain(
    caller: Annotated[str, typer.Argument(help="A caller's id: `key:NAME`, `apify:ACCOUNT ID` or `local`.")],
    tool: Annotated[str, typer.Argument(help="The tool that it would call.")],
    actor: Annotated[str | None, typer.Option(help="The Actor that the call would run: `user/name`.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="The policy file, as for `check`.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what holds for a call, and which rule decides: of the file, then of OUTLAST_PERMISSIONS."""
    output = Output(as_json=as_json)
    finish(output, lambda: _explain(output, file, caller, tool, actor))


async def _explain(output: Output, file: Path | None, caller: str, tool: str, actor: str | None) -> ExitCode:
    from outlast.api.access.permissions import (  # noqa: PLC0415 (tools)
        CallName,
        PermissionRules,
        Rule,
        actor_names,
        approver_words,
    )
    from outlast.api.access.policy.policy_file import PolicyError, read_policy  # noqa: PLC0415 (pydantic)

    try:
        policy = read_policy(named_file(file)).over(_small_form())
    except (PolicyError, ValueError) as error:
        raise CliError(str(error), exit_code=ExitCode.FAILED) from error
    names = (CallName(Rule("*", tool, "allow", "").pattern), *(actor_names(actor) if actor else ()))
    ruling = PermissionRules.of(policy).ruling(caller, names)
    action, rule = (ruling.action, ruling.rule) if ruling else ("allow", None)
    approvers = ruling.approvers if ruling else ()
    holders = [other for other in policy.callers if other != caller and policy.of(other).roles.issuperset(approvers)]
    if output.as_json:
        explanation: dict[str, object] = {
            "action": action,
            "rule": rule,
            "names": [*dict.fromkeys(n.tool for n in names)],
        }
        output.document({**explanation, "approvers": list(approvers), "held_by": holders} if approvers else explanation)
    else:
        output.show(f"[bold]{action}[/]: " + (escape(rule) if rule else "no rule is about it"))
        if approvers:
            who = ", ".join(holders) or "nobody"
            output.show(f"approval by {escape(approver_words(approvers))}: {escape(who)}")
    return ExitCode.OK


def _small_form() -> "Policy":
    from outlast.api.access.permissions import PermissionRules  # noqa: PLC0415 (tools)
    from outlast.api.access.policy.contracts import PermissionEntry, Policy  # noqa: PLC0415 (pydantic)

    rules = PermissionRules.parse(os.environ.get("OUTLAST_PERMISSIONS", "")).rules
    return Policy(
        rules=tuple(PermissionEntry(caller=rule.caller, tool=rule.tool, action=rule.action) for rule in rules)
    )


async def _check(output: Output, file: Path | None) -> ExitCode:
    from outlast.api.access.permissions import (  # noqa: PLC0415 (tools)
        PermissionRules,
        idle_roles,
        idle_rules,
    )
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
        output.show(
            f"[green]✓[/] {escape(str(path))}: " + ", ".join(f"{count} {name}" for name, count in counts.items())
        )
        for line in (*warnings, *advice):
            output.show(f"[yellow]![/] {escape(line)}")
    return ExitCode.OK


def named_file(given: Path | None) -> Path:
    """The policy file that a command is about. Raises `CliError` when none is named."""
    if given is not None:
        return given
    named = os.environ.get("OUTLAST_POLICY_FILE")
    if not named:
        raise CliError("Name a policy file, or set OUTLAST_POLICY_FILE.", exit_code=ExitCode.USAGE)
    return Path(named)
