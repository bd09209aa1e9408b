"""`outlast doctor`: check every part of a system."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from outlast.cli.options import ExitCode, Options
from outlast.cli.runner import as_cli_errors, local_command
from outlast.cli.show.output import Entries, Output, with_commands
from outlast.cli.stack_options import servers_file_of

if TYPE_CHECKING:
    from outlast.contracts.checks import Check

_MARKS = {"ok": "[green]✓[/]", "warn": "[yellow]![/]", "fail": "[bold red]✗[/]", "skip": "[dim]-[/]"}


@local_command(with_server=True)
async def doctor(output: Output, options: Options) -> ExitCode:
    """Check every part, and show problems with their remedies. The exit code is 1 if a check fails."""
    with as_cli_errors():
        checks = await _all_checks(options)
    bad = [check for check in checks if check.health == "fail"]
    if output.as_json:
        output.document({"ok": not bad, "checks": [asdict(check) for check in checks]})
    else:
        output.show(_findings(checks))
        output.show(f"\n{_verdict(checks)}")
    return ExitCode.FAILED if bad else ExitCode.OK


async def _all_checks(options: Options) -> "list[Check]":
    from outlast.cli.checks import components, machine, settings, temporal  # noqa: PLC0415 (httpx, cryptography, the Temporal SDK)
    from outlast.client.http import running_stack  # noqa: PLC0415

    data_dir, environment = options.data_dir, dict(os.environ)
    actors = [Path(folder) for folder in environment.get("OUTLAST_ACTORS", "").split(os.pathsep) if folder]
    around = components.Surroundings(data_dir, running_stack(data_dir), environment)
    named = environment.get("OUTLAST_MCP_SERVERS_FILE")
    servers_file = servers_file_of(Path(named) if named else None, data_dir)
    return [
        machine.check_python(),
        machine.check_data_dir(data_dir),
        machine.check_data(data_dir, environment),
        machine.check_disk(data_dir, environment),
        machine.check_seal_keys(data_dir, environment),
        machine.check_encryption(environment),
        components.check_policy(environment),
        *settings.check_variables(),
        await settings.check_store(data_dir),
        *await settings.check_store_owner(environment),
        settings.check_actors(actors),
        settings.check_servers_file(servers_file, environment),
        machine.check_temporal_server(environment),
        *([] if around.state else machine.check_ports(environment)),
        components.check_stack(around),
        *await components.check_server(options, around),
        await components.check_policy_in_force(options),
        await machine.check_limits(options),
        await components.check_platform(around),
        await components.check_issuer(),
        await components.check_metrics(around),
        await components.check_temporal_ui(around),
        await machine.check_clock(components.clocks(options, around)),
        temporal.check_certificate(environment),
        *await temporal.check_namespace(around),
    ]


def _findings(checks: "list[Check]") -> Entries:
    rows: list[tuple[str, ...]] = []
    for check in checks:
        style = "dim" if check.health == "skip" else "default"
        rows.append((_MARKS[check.health], f"[{style}]{check.name}[/]", f"[{style}]{escape(check.finding)}[/]"))
        if check.advice:
            rows.append(("", "", f"[cyan]→[/] {with_commands(check.advice)}"))
    return Entries(rows)


def _verdict(checks: "list[Check]") -> str:
    failed = [check.name for check in checks if check.health == "fail"]
    warned = [check.name for check in checks if check.health == "warn"]
    if failed:
        return f"[bold red]Failed:[/] {', '.join(failed)}."
    if warned:
        return f"[green]It works.[/] Warnings: {', '.join(warned)}."
    return "[bold green]No problems found.[/]"
