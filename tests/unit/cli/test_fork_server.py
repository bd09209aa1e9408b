"""What becomes of a stack when no fork server can be started beside it."""

from pathlib import Path

from outlast.api.cli.fork_server.asking import prepare_for_clients
from outlast.api.cli.fork_server.protocol import LOCK_NAME


def test_a_stack_goes_on_without_a_fork_server(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).touch()
    (tmp_path / "logs").touch()  # no folder: its log cannot be written
    prepare_for_clients(tmp_path)
