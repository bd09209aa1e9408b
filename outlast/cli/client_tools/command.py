"""`outlast client`: run the client phases of tools on the machine of the user."""

import sys
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from outlast.cli.options import BadInput, CliError, ExitCode
from outlast.cli.prompts import typed_lines
from outlast.cli.runner import Context, server_command


@server_command()
async def client(
    context: Context,
    browser_url: Annotated[
        str, typer.Option(envvar="OUTLAST_BROWSER_URL", help="Address of the browser's debugging port.")
    ] = "http://127.0.0.1:9222",
    allow_remote_browser: Annotated[
        bool, typer.Option("--allow-remote-browser", help="Accept a browser on another machine.")
    ] = False,
    tools_from: Annotated[
        str | None,
        typer.Option(
            "--tools-from",
            metavar="FILE[,FILE]",
            help="Your own client tools: Python modules with CLIENT_TOOLS, or manifests of programs (.json).",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send data of this machine without a prompt.")] = False,
) -> ExitCode:
    """Answer questions of your tasks to this machine, until Ctrl-C.

    Offers `list_tabs`, the tabs of a browser that was started with --remote-debugging-port=9222, and the client tools
    of --tools-from.
    """
    from outlast.cli.client_tools.browser_tabs import checked_browser_url  # noqa: PLC0415 (websockets)
    from outlast.cli.client_tools.handoff_answers import (  # noqa: PLC0415
        Consent,
        Serving,
        offered,
        own_tools,
    )

    browser_url = checked_browser_url(browser_url, allow_remote=allow_remote_browser)
    tools = offered(browser_url, own_tools(tools_from or ""))
    if not yes and (context.output.as_json or not sys.stdin.isatty()):
        raise BadInput("There is no terminal to prompt on.", hint="Add --yes to allow every call without a prompt.")
    context.output.interrupted = CliError(
        "Stopped. Later questions wait for the next client.", exit_code=ExitCode.INTERRUPTED
    )
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(typed_lines()) if not yes else None
        consent = Consent(context.output, lines, context.client.connection.url)
        await Serving(context.client, context.output, tools, consent).run()
    return ExitCode.OK
