"""`outlast down`: stop the stack that runs on the data directory."""

from pathlib import Path

from outlast.cli.commands.up import stack_failure
from outlast.cli.errors import ExitCode
from outlast.cli.options import DEFAULT_DATA_DIR, JsonOption
from outlast.cli.running import finish
from outlast.cli.show.output import Output
from outlast.cli.stack_options import StackDataDirOption


def down(data_dir: StackDataDirOption = DEFAULT_DATA_DIR, as_json: JsonOption = False) -> None:
    """Stop the stack that runs on the data directory, in order.

    Open tasks go on at the next `outlast up`.
    """
    output = Output(as_json=as_json)
    finish(output, lambda: stop(output, data_dir))


async def stop(output: Output, data_dir: Path) -> ExitCode:
    """Stop it and wait until it is gone; that none runs is no error."""
    from outlast.deploy.local.detached import stop_running  # noqa: PLC0415 (psutil, httpx)
    from outlast.deploy.local.errors import StackError  # noqa: PLC0415

    try:
        state = await stop_running(data_dir)
    except (StackError, OSError) as error:
        raise stack_failure(error) from error
    if output.as_json:
        output.document({"stopped": state is not None, "pid": state.pid if state else None, "data_dir": str(data_dir)})
    elif state is None:
        output.show(f"No stack runs on {data_dir}.")
    else:
        output.show(f"[green]✓[/] Stopped the stack on {data_dir} (process {state.pid}).")
    return ExitCode.OK
