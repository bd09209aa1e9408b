"""Secrets that tools declare (`@tool(secrets=["STRIPE_KEY"])`): their values, and texts without them.

A value comes from the environment of the worker. It is hidden where it is spelled as a whole: as it is, on one line, as
JSON (also within JSON) and Python write it, percent-encoded, in hexadecimal digits, in Base64, and as a long line of a
value of several lines.
"""

import hashlib
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import quote, quote_plus

from pydantic import SecretStr

from outlast.activities.secrets import secret_from_file
from outlast.suggestions import suggested

LEAST_HIDDEN_CHARS = 6
"""Shortest value that is hidden: shorter ones occur in ordinary texts."""
_LEAST_LINE_CHARS = 16
"""Shortest line of a value of several lines that is hidden alone."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_secret_names(names: object) -> tuple[str, ...]:
    """Return the option `secrets` as a tuple. Raises `TypeError` and `ValueError` for anything else."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"@tool: secrets={names!r} is not a list of names: write secrets=['STRIPE_KEY'].")
    given = tuple(cast(Iterable[object], names))
    for name in given:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ValueError(
                f"@tool: {name!r} in secrets= is not the name of an environment variable: 1 to 64 letters, digits, or "
                "`_`, and no digit first."
            )
    return tuple(dict.fromkeys(cast(tuple[str, ...], given)))


class MissingSecret(Exception):
    """The environment does not have a declared secret. The message has the reason, with the path of its file."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


class ToolSecrets:
    """The values of a tool's secrets, by their names."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        self._hidden = _Hidden()
        for name, value in self._values.items():
            self._hidden.add(name, value)

    @classmethod
    def read(cls, names: Iterable[str], environment: Mapping[str, str] | None = None) -> "ToolSecrets":
        """Return the secrets from the variables of their names, or from the files that `NAME_FILE` name. Their values
        are hidden in the logs of this process from now on. Raises `MissingSecret`.
        """
        secrets = cls({name: _read(name, os.environ if environment is None else environment) for name in names})
        for name, value in secrets._values.items():
            _known.add(name, value)
        return secrets

    def value(self, name: str) -> SecretStr:
        """Return a secret. Raises `ValueError` for one that the tool does not declare."""
        if name not in self._values:
            declared = f" It declares: {suggested(self._values, name)}." if self._values else ""
            raise ValueError(
                f"The tool does not declare the secret {name!r}: write @tool(secrets=[{name!r}]).{declared}"
            )
        return SecretStr(self._values[name])

    def __bool__(self) -> bool:
        """Return whether the tool has secrets."""
        return bool(self._values)

    @property
    def digest(self) -> str:
        """A digest of the values, for use within this process; empty without values."""
        return hashlib.sha256(json.dumps(self._values, sort_keys=True).encode()).hexdigest() if self._values else ""

    def hide(self, text: str) -> str:
        """Return `text` with `[secret NAME]` instead of values."""
        return self._hidden.hide(text)

    def hide_in(self, value: Any) -> Any:
        """Return a JSON value with `[secret NAME]` instead of values in its texts and names."""
        return self._hidden.hide_in(value) if self._values else value

    def forget(self) -> None:
        """Show the values in logs again, after a test."""
        for value in self._values.values():
            _known.remove(value)


def hide_known(text: str) -> str:
    """Return `text` without the values of all secrets that this process has read, for its logs and errors."""
    return _known.hide(text)


def hide_in_logs(name: str, value: str) -> None:
    """Hide a value in the logs and errors of this process from now on, as `[secret NAME]`."""
    _known.add(name, value)


def is_hidden(value: str) -> bool:
    """Return whether a value is long enough to be hidden."""
    return len(value.strip()) >= LEAST_HIDDEN_CHARS


class _Hidden:
    """Values to hide, by their spellings."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pattern = re.compile("")

    def add(self, name: str, value: str) -> None:
        new = {spelling: name for spelling in _spellings(value) if spelling not in self._names}
        if new:
            self._set(self._names | new)

    def remove(self, value: str) -> None:
        self._set({spelling: name for spelling, name in self._names.items() if spelling not in _spellings(value)})

    def _set(self, names: dict[str, str]) -> None:
        # The longest first: one value may contain another.
        self._pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
        self._names = names

    def hide(self, text: str) -> str:
        names, pattern = self._names, self._pattern
        if not any(spelling in text for spelling in names):  # much faster than the pattern
            return text
        return pattern.sub(lambda found: f"[secret {names[found[0]]}]" if found[0] in names else found[0], text)

    def hide_in(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(str(key)): self.hide_in(one) for key, one in cast(Mapping[Any, Any], value).items()}
        if isinstance(value, list | tuple):
            return [self.hide_in(one) for one in cast(Iterable[Any], value)]
        return value


_known = _Hidden()
"""Of all tools of this process. Values that were replaced in the meantime stay: a call may still have them."""


def _read(name: str, environment: Mapping[str, str]) -> str:
    value = environment.get(name)
    if not value:
        try:
            value = secret_from_file(name, environment)
        except ValueError as error:
            raise MissingSecret(name, f"{error}.") from None
    if not value:
        raise MissingSecret(name, f"Neither {name} nor {name}_FILE is set in the environment of this worker.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MissingSecret(name, f"{name} is not text in UTF-8.") from None
    return value


def _spellings(value: str) -> frozenset[str]:
    """Return the texts that show `value`; empty for a short one."""
    value = value.strip()
    if not is_hidden(value):
        return frozenset()
    lines = [line.strip() for line in value.splitlines()]
    plain = {value, " ".join(value.split()), *(line for line in lines if len(line) >= _LEAST_LINE_CHARS)}
    found = set(plain)
    for text in plain:
        found |= {repr(text)[1:-1], *_as_json({text}), *_as_json(_as_json({text}))}
        found |= {quote(text), quote(text, safe=""), quote_plus(text), text.encode().hex()}
    for offset in range(3):
        found |= _base64(value.encode(), offset)
    return frozenset(text for text in found if is_hidden(text))


def _as_json(texts: set[str]) -> set[str]:
    return {json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in texts for is_ascii in (True, False)}


def _base64(value: bytes, offset: int) -> set[str]:
    """Return the digits of Base64 that `value` alone decides, if it begins `offset` bytes after a group of three."""
    before = b"\0" * offset
    first, last = -(-offset * 8 // 6), (offset + len(value)) * 8 // 6
    digits = b64encode(before + value)[first:last].decode()
    return {digits, digits.translate(str.maketrans("+/", "-_"))}
