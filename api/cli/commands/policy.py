"""`outlast policy`: check the operator's policy file."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from outlast.api.cli.errors import CliError, ExitCode
from outlast.api.cli.options import JsonOption
from outlast.api.cli.running import finish
from outlast.api.cli.show.output import Output

app = typer.Typer(no_args_is_help=True, help="Check the policy file: callers, keys, limits, caps, permissions.")

FileArgument = Annotated[
    Path | None, typer.Argument(help="The policy file; by default the one that OUTLAST_POLICY_FILE names.")
]


@app.command()
def check(file: FileArgument = None, as_json: JsonOption = False) -> None:
    """Say what is wrong with the policy file. Exit code 1 when something is."""
    output = Output(as_json=as_json)
    finish(output, lambda: _check(output, file))


async def _check(output: Output, file: Path | None) -> ExitCode:
    from outlast.api.access.policy.policy_file import PolicyError, read_policy  # noqa: PLC0415 (pydantic)

    path = named_file(file)
    try:
        policy = read_policy(path)
    except PolicyError as error:
        if output.as_json:
            output.document({"ok": False, "file": str(path), "problems": list(error.problems)})
        else:
            for problem in error.problems:
                output.show(f"[bold red]✗[/] {escape(problem)}")
        return ExitCode.FAILED
    counts = {"callers": len(policy.callers), "keys": len(policy.keys), "rules": len(policy.rules)}
    if output.as_json:
        output.document({"ok": True, "file": str(path), **counts})
    else:
        output.show(
            f"[green]✓[/] {escape(str(path))}: " + ", ".join(f"{count} {name}" for name, count in counts.items())
        )
    return ExitCode.OK


def named_file(given: Path | None) -> Path:
    """The policy file that a command is about. Raises `CliError` when none is named."""
    if given is not None:
        return given
    named = os.environ.get("OUTLAST_POLICY_FILE")
    if not named:
        raise CliError("Name a policy file, or set OUTLAST_POLICY_FILE.", exit_code=ExitCode.USAGE)
    return Path(named)
