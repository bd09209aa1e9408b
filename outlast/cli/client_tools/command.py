"""`outlast client`: the client's part of tools, on the user's machine."""

import sys
from contextlib import AsyncExitStack
from typing import Annotated

import typer

from outlast.cli.errors import BadInput, CliError, ExitCode
from outlast.cli.prompts import typed_lines
from outlast.cli.runner import Context, server_command

DEFAULT_BROWSER_URL = "http://127.0.0.1:9222"


@server_command()
async def client(
    context: Context,
    browser_url: Annotated[
        str, typer.Option(envvar="OUTLAST_BROWSER_URL", help="Address of the browser's debugging port.")
    ] = DEFAULT_BROWSER_URL,
    allow_remote_browser: Annotated[
        bool, typer.Option("--allow-remote-browser", help="Accept a browser on another machine.")
    ] = False,
    tools_from: Annotated[
        str | None,
        typer.Option(
            "--tools-from",
            metavar="FILE[,FILE]",
            help="Client tools of your own: Python modules with CLIENT_TOOLS, or manifests of programs (.json).",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before a tool first sends something of this machine.")
    ] = False,
) -> ExitCode:
    """Answer what your tasks ask of this machine, until Ctrl-C.

    Offers `list_tabs`, the tabs of a browser that was started with --remote-debugging-port=9222, and the client tools
    of --tools-from.
    """
    # Loads websockets, which only this command needs.
    from outlast.cli.client_tools.browser_tabs import checked_browser_url  # noqa: PLC0415
    from outlast.cli.client_tools.handoff_answers import Consent, Serving, offered  # noqa: PLC0415
    from outlast.cli.client_tools.own_programs import own_tools  # noqa: PLC0415

    browser_url = checked_browser_url(browser_url, allow_remote=allow_remote_browser)
    tools = offered(browser_url, own_tools(tools_from or ""))
    if not yes and (context.output.as_json or not sys.stdin.isatty()):
        raise BadInput("There is no terminal to ask you on.", hint="Say --yes when every call may have what it asks.")
    context.interrupted = CliError(
        "Stopped. What is asked from now on waits for the next client.", exit_code=ExitCode.INTERRUPTED
    )
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(typed_lines()) if not yes else None
        consent = Consent(context.output, lines, context.client.connection.url)
        await Serving(context.client, context.output, tools, consent).run()
    return ExitCode.OK
