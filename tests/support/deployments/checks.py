"""Programs that check formats of deployments: hadolint, check-jsonschema, kubernetes-validate and shellcheck."""

from pathlib import Path

from tests.support.locked_environments import LockedEnvironment

CHECKS = LockedEnvironment(Path(__file__).with_name("checks.lock"))
"""Its lock file is made from `uv pip compile` of the four names, with hashes."""


def find(program: str) -> str | None:
    """The program, if it was fetched."""
    path = CHECKS.program(program)
    return str(path) if CHECKS.is_installed and path.is_file() else None
