"""A stack on one machine: what its parts know of each other's secrets, and who may read what it leaves on the disk."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.stacks.outlast_up import RunningStack, running_stack

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]

KEY = "a-key-of-a-caller-0123456789"
SECRETS = {
    "OUTLAST_API_KEYS": f"ann:{KEY}",
    "OUTLAST_TOKEN": "a-token-of-the-command-line",
    "OPENAI_API_KEY": "a-key-of-a-model",
    "OUTLAST_ZAI_API_KEY": "a-key-of-another-model",
    "OUTLAST_RESPONDER_WEBHOOK_URL": "https://hooks.example/a-webhook-with-its-secret",
    "AWS_SECRET_ACCESS_KEY": "a-key-of-the-store",
    "MY_DATABASE_PASSWORD": "a-password-of-the-users-own",
}
OF_MODELS = {"OPENAI_API_KEY", "OUTLAST_ZAI_API_KEY", "OUTLAST_RESPONDER_WEBHOOK_URL"}
OF_THE_USER = {"AWS_SECRET_ACCESS_KEY", "MY_DATABASE_PASSWORD"}
"""The store's credentials reach worker and API, which both read and write it."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """On a data directory that an earlier version has left readable by everybody."""
    data_dir = tmp_path_factory.mktemp("separate") / "data"
    (data_dir / "logs").mkdir(parents=True)
    for old in (data_dir / "stack.lock", data_dir / "logs" / "api.log"):
        old.write_text("old")
        old.chmod(0o644)
    for folder in (data_dir, data_dir / "logs"):
        folder.chmod(0o755)
    with running_stack(data_dir, **SECRETS) as stack:
        yield stack


@pytest.fixture(scope="module")
def called(stack: RunningStack) -> httpx.Response:
    """A call whose rows are stored."""
    headers = {"Authorization": f"Bearer {KEY}", "Prefer": "wait=120"}
    body = {"tool": "outlast--big-table", "arguments": {"rows": 300}}
    answer = httpx.post(f"{stack.addresses.api_url}/v1/tasks", json=body, headers=headers, timeout=150)
    assert answer.is_success, answer.text
    return answer


def secrets_of(pid: int) -> set[str]:
    """Names of our secrets whose values stand in a process's environment, under whatever name."""
    environment = Path(f"/proc/{pid}/environ").read_text()
    return {name for name, value in SECRETS.items() if value in environment}


def test_each_part_has_its_own_secrets_only(stack: RunningStack) -> None:
    assert secrets_of(stack.pid("worker")) == OF_MODELS | OF_THE_USER
    assert secrets_of(stack.pid("api")) == {"OUTLAST_API_KEYS"} | OF_THE_USER
    assert secrets_of(stack.pid("temporal")) == set()
    assert secrets_of(stack.pid("sandbox")) == set()


def test_the_api_knows_which_models_can_be_called_without_their_keys(stack: RunningStack) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    providers = httpx.get(f"{stack.addresses.api_url}/v1/providers", headers=headers, timeout=180).json()["providers"]
    assert {entry["id"]: entry["configured"] for entry in providers} == {
        "openai": True, "anthropic": False, "zai": True, "generic": False,
    }  # fmt: skip


def test_what_a_stack_keeps_is_readable_by_its_owner_only(stack: RunningStack, called: httpx.Response) -> None:
    assert called.json()["task"]["status"] == "completed", called.text
    found = [stack.data_dir, *stack.data_dir.rglob("*")]
    names = {path.name for path in found}
    assert {"temporal.db", "seal.keys", "stack.json", "api.log", "api.log.1", "outputs", "sandbox.sqlite"} <= names
    modes = {str(path): stat.filemode(os.lstat(path).st_mode) for path in found if not path.is_symlink()}
    assert {path: mode for path, mode in modes.items() if not mode.endswith("------")} == {}
    assert json.loads((stack.data_dir / "stack.json").read_text())["pid"]
