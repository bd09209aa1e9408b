"""Whether what a deployment sets is what the code reads: no variable unknown, none missing, no value refused."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from outlast.activities.secrets import SUFFIX, names_of, secret_file_variables
from outlast.api.settings import ApiSettings
from outlast.api.startup_checks import settings_problems
from outlast.worker.bootstrap import PREFIX
from outlast.worker.settings import WorkerSettings, settings_errors
from tests.support.stacks.service import SEAL_KEYS

KINDS: Mapping[str, type[ApiSettings] | type[WorkerSettings]] = {"worker": WorkerSettings, "api": ApiSettings}
OF_TEMPORAL = {
    f"TEMPORAL_{name}"
    for name in (
        "ADDRESS NAMESPACE API_KEY API_KEY_FILE PROFILE CONFIG_FILE TLS TLS_SERVER_NAME TLS_CLIENT_CERT_PATH "
        "TLS_CLIENT_KEY_PATH TLS_SERVER_CA_CERT_PATH"
    ).split()
}
"""Those of `temporalio.envconfig`, and the file of its secret."""
OF_THE_STORE = {
    "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID_FILE", "AWS_SECRET_ACCESS_KEY",
    "AWS_SECRET_ACCESS_KEY_FILE",
}  # fmt: skip
REQUIRED = {
    "worker": (("TEMPORAL_ADDRESS",), ("OUTLAST_SEAL_KEYS", "OUTLAST_SEAL_KEYS_FILE"), ("OUTLAST_SHUTDOWN_SECONDS",)),
    "api": (
        ("TEMPORAL_ADDRESS",),
        ("OUTLAST_SEAL_KEYS", "OUTLAST_SEAL_KEYS_FILE"),
        ("OUTLAST_API_HOST",),
        ("OUTLAST_API_KEYS", "OUTLAST_API_KEYS_FILE", "OUTLAST_POLICY_FILE", "OUTLAST_OAUTH_ISSUER"),
    ),
}
"""One of each of these has to be set: the defaults are for a single machine, where the stack sets them."""


def read_by(process: str) -> frozenset[str]:
    """Every variable that the worker or the API reads."""
    kind: type[BaseSettings] = KINDS[process]
    names = {choice for name, field in kind.model_fields.items() for choice in names_of(name, field, PREFIX)}
    return frozenset(names | secret_file_variables(kind) | OF_TEMPORAL | OF_THE_STORE)


def problems(process: str, environment: Mapping[str, str], folder: Path) -> list[str]:
    """What is wrong with the environment that a deployment gives to `process`; secrets are written into `folder`."""
    unknown = [f"{name} is nothing that the {process} reads" for name in sorted(environment.keys() - read_by(process))]
    required = [names for names in REQUIRED[process] if not environment.keys() & set(names)]
    missing = [f"{' or '.join(names)} is missing" for names in required]
    return [*unknown, *missing, *_refused(process, environment, folder)]


def _refused(process: str, environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    """What the process itself would say."""
    with _only(_with_secrets(environment, folder)):
        try:
            settings = KINDS[process]()
        except ValidationError as error:
            yield settings_errors(error)
            return
    if isinstance(settings, ApiSettings):
        yield from settings_problems(settings)


def _with_secrets(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The environment, with files that are there for the secrets that it names."""
    contents = {"OUTLAST_API_KEYS_FILE": "name:0123456789abcdef", "OUTLAST_SEAL_KEYS_FILE": SEAL_KEYS}
    there = dict(environment)
    for name in environment:
        if name.endswith(SUFFIX) and name.removesuffix(SUFFIX) not in ("OUTLAST_AUDIT", "OUTLAST_READY"):
            path = folder / name
            path.write_text(contents.get(name, "a-secret"))
            there[name] = str(path)
    return there


@contextmanager
def _only(environment: Mapping[str, str]) -> Iterator[None]:
    with patch.dict(os.environ, environment, clear=True):
        yield
