"""Secrets from files: every secret `NAME` may be given as `NAME_FILE`, the path of a file with it. Runtimes show a
container's environment, and children and core dumps contain it; a mounted file is not exposed. A variable takes
precedence over its file; an empty file counts as missing.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from pydantic import AliasChoices, SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

SUFFIX = "_FILE"
_OF_THE_STORE = {"AWS_ACCESS_KEY_ID": "aws_access_key_id", "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key"}
"""Credentials of an S3 store that are secrets, with obstore's names for them."""


def is_secret(field: FieldInfo) -> bool:
    """Return True if a setting must not be shown."""
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


def names_of(name: str, field: FieldInfo, prefix: str) -> tuple[str, ...]:
    """Return the variables that the setting `name` is read from, the first one winning."""
    alias = field.validation_alias
    choices = map(str, alias.choices) if isinstance(alias, AliasChoices) else (f"{prefix}{name.upper()}",)
    return tuple(choice for choice in choices if choice.isupper())


def secret_file_variables(settings: type[BaseSettings]) -> frozenset[str]:
    """Return the variables that name the file of a secret of `settings`."""
    return frozenset(f"{name}{SUFFIX}" for names in _secrets_of(settings).values() for name in names)


def read_secret_files(settings: type[BaseSettings], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of `settings` that are read from files, by the setting's name. Raises `ValueError`, naming the
    variable and the file but nothing of its content, when a file cannot be read.
    """
    found: dict[str, str] = {}
    for setting, names in _secrets_of(settings).items():
        for name in names:
            secret = secret_from_file(name, environment)
            if secret is not None:
                found.setdefault(setting, secret)
    return found


def secret_from_file(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the secret whose file `NAME_FILE` names, without white space around it. Raises `ValueError` as above."""
    variable = f"{name}{SUFFIX}"
    path = environment.get(variable)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except OSError as error:
        raise ValueError(f"{variable}: {path} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{variable}: {path} is not text in UTF-8") from error


def store_credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Credentials of an S3 store that are read from files, under obstore's names; variables win, as everywhere."""
    found = {
        option: secret_from_file(name, environment)
        for name, option in _OF_THE_STORE.items()
        if not environment.get(name)
    }
    return {option: secret for option, secret in found.items() if secret is not None}


def _secrets_of(settings: type[BaseSettings]) -> dict[str, tuple[str, ...]]:
    return dict(_named_secrets(settings))


def _named_secrets(settings: type[BaseSettings]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the secrets and their variables, except the one whose file is a separate setting."""
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        if is_secret(field) and f"{name}{SUFFIX.lower()}" not in settings.model_fields:
            yield name, names_of(name, field, prefix)
