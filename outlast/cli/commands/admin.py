"""`outlast admin`: set up a deployment; `outlast audit` and `outlast policy`: check audit log and policy file."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from outlast.cli.options import DEFAULT_DATA_DIR, CliError, DataDirOption, ExitCode, time_option
from outlast.cli.runner import local_command
from outlast.cli.show.output import Output

if TYPE_CHECKING:
    from outlast.activities.secrets import SecretSealer
    from outlast.api.audit.records import ChainReport
    from outlast.api.temporal.namespace_setup import SetupStep

app = typer.Typer(name="admin", no_args_is_help=True, help="Set up a deployment.")

_DAY_SECONDS = 86_400
_TIMEOUT_SECONDS = 150
_MARKS = {"there": "[green]✓[/]", "made": "[green]+[/]", "refused": "[bold red]✗[/]", "wrong": "[bold red]✗[/]"}


@app.callback()
def admin() -> None:
    """Set up a deployment."""


@local_command(app)
async def setup(
    output: Output,
    retention: Annotated[
        float | None,
        time_option("Minimum time that ended tasks are kept: as long as sessions exist.", show_default="30d"),
    ] = None,
) -> ExitCode:
    """Create what tasks need in Temporal: the namespace, its retention, its search attributes.

    Connects as worker and API do (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_*). You can run
    it any number of times: existing values do not change. If the credential lacks a permission, the commands for
    somebody who has it are printed, and the exit code is 1.
    """
    seconds = 30 * _DAY_SECONDS if retention is None else retention
    if seconds < _DAY_SECONDS:
        raise typer.BadParameter("Temporal keeps ended tasks for at least one day.", param_hint="--retention")
    from temporalio.service import RPCError  # noqa: PLC0415

    from outlast.api.temporal.namespace_setup import set_up_namespace  # noqa: PLC0415 (the Temporal SDK)
    from outlast.worker.connection import connect_plainly  # noqa: PLC0415

    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            client = await connect_plainly()
            where = f"{client.namespace} at {client.service_client.config.target_host}"
            steps = await set_up_namespace(client, retention=timedelta(seconds=seconds))
    except (RPCError, RuntimeError, ValueError, OSError, TimeoutError) as error:
        reason = error.message if isinstance(error, RPCError) else str(error).partition("\n")[0]
        raise CliError(
            f"Temporal cannot be set up: {reason or 'no answer in time'}",
            exit_code=ExitCode.UNREACHABLE,
            hint="Check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, and the API key or certificate (docs/cluster.md).",
        ) from error
    is_done = all(step.is_done for step in steps)
    if output.as_json:
        output.document({"ok": is_done, "where": where, "steps": [step.model_dump(mode="json") for step in steps]})
    else:
        _show(output, where, steps)
    return ExitCode.OK if is_done else ExitCode.FAILED


def _show(output: Output, where: str, steps: "tuple[SetupStep, ...]") -> None:
    output.show(f"[bold]{escape(where)}[/]")
    for step in steps:
        output.show(f"{_MARKS[step.outcome]} {step.what}: {escape(step.detail)}")
        for command in step.commands:
            output.command(command)
    if any(step.commands for step in steps):
        output.note(
            "Ask somebody who may do this to run these commands or to use the Temporal UI; then run this again."
        )


audit_app = typer.Typer(name="audit", no_args_is_help=True, help="Verify the audit log.")


@audit_app.callback()
def audit() -> None:
    """Verify the audit log."""


@local_command(audit_app)
async def verify(
    output: Output,
    files: Annotated[list[Path], typer.Argument(help="All files of the log, in any order.", exists=True)],
    seal_keys: Annotated[
        Path | None, typer.Option(envvar="OUTLAST_SEAL_KEYS_FILE", help="The key ring of the API that wrote the log.")
    ] = None,
    data_dir: DataDirOption = DEFAULT_DATA_DIR,
) -> ExitCode:
    """Find lines that were changed, removed, moved or inserted. The exit code is 1 if there are any.

    Compare the last number and code with those that you noted before: a log cannot prove that its last records were
    not removed.
    """
    from outlast.api.audit.records import KEY_PURPOSE, verify  # noqa: PLC0415 (pydantic)

    reports = verify(files, _ring(seal_keys or data_dir / "seal.keys").derived_keys(KEY_PURPOSE))
    is_broken = any(report.problems for report in reports)
    if output.as_json:
        output.document({"ok": not is_broken, "chains": [_document(report) for report in reports]})
    else:
        for report in reports:
            _show_report(output, report)
    return ExitCode.FAILED if is_broken else ExitCode.OK


def _ring(path: Path) -> "SecretSealer":
    from outlast.activities.failures.exceptions import SealError  # noqa: PLC0415
    from outlast.activities.secrets import SecretSealer  # noqa: PLC0415

    try:
        given = os.environ.get("OUTLAST_SEAL_KEYS")
        return SecretSealer.from_text(given) if given else SecretSealer.from_file(path)
    except SealError as error:
        raise CliError(
            f"{error} The log can be verified only with the keys of its API.", exit_code=ExitCode.USAGE
        ) from error


def _document(report: "ChainReport") -> dict[str, object]:
    return {
        "chain": report.chain,
        "files": [str(path) for path in report.files],
        "records": report.records,
        "first": report.first,
        "last": report.last.seq,
        "last_mac": report.last.mac,
        "torn_bytes": report.torn_bytes,
        "problems": report.problems,
    }


def _show_report(output: Output, report: "ChainReport") -> None:
    for problem in report.problems:
        output.show(f"[bold red]✗[/] {escape(problem)}")
    mark = "[bold red]✗[/]" if report.problems else "[green]✓[/]"
    what = f"{report.records} records, numbers {report.first} to {report.last.seq}"
    output.show(f"{mark} chain {escape(report.chain)}: {what}, the last with code {report.last.mac}")
    if report.first > 1 and not report.problems:
        output.show(f"  Files with the records before {report.first} are missing.")
    if report.torn_bytes:
        output.show(
            f"  The last line is incomplete ({report.torn_bytes} bytes): after a crash, or it is being written."
        )


policy_app = typer.Typer(
    name="policy", no_args_is_help=True, help="Check the policy file: callers, keys, limits, permissions."
)

_FILE_HELP = "The policy file. Default: that of OUTLAST_POLICY_FILE."


@local_command(policy_app)
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


@local_command(policy_app)
async def explain(
    output: Output,
    caller: Annotated[str, typer.Argument(help="Id of a caller: `key:NAME`, `apify:ACCOUNT ID` or `local`.")],
    tool: Annotated[str, typer.Argument(help="The tool of the call, or `tag:NAME` for those with a tag.")],
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
    found = permissions.explained(policy, caller, tool, actor)
    if output.as_json:
        shown = ("action", "rule", "names", *(("approvers", "held_by") if found.approvers else ()))
        output.document({name: found.model_dump(mode="json")[name] for name in shown})
        return
    output.show(f"[bold]{found.action}[/]: {escape(found.rule) if found.rule else 'no rule applies'}")
    if found.approvers:
        who = ", ".join(found.held_by) or "nobody"
        output.show(f"approval by {escape(permissions.approver_words(found.approvers))}: {escape(who)}")


def named_file(given: Path | None) -> Path:
    """Return the policy file of a command. Raises `CliError` if none is named."""
    if given is not None:
        return given
    named = os.environ.get("OUTLAST_POLICY_FILE")
    if not named:
        raise CliError("Name a policy file, or set OUTLAST_POLICY_FILE.", exit_code=ExitCode.USAGE)
    return Path(named)
