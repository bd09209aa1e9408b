"""References to variables and secrets in the texts of the file of MCP servers, see `config`."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from outlast.activities.tool_secrets import MissingSecret, ToolSecrets, hide_in_logs
from outlast.suggestions import suggested

CALLER_SECRET = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
"""The name of a secret of callers."""
SECRET_NAME = re.compile(r"(?i)auth|token|key|secret|passw|credential|cookie")
"""Names of variables and headers whose values are secrets."""
HELD_PLACE = re.compile("\0([A-Z][A-Z0-9_]*)\0")
"""Place of a caller's secret in a text. No text of the file contains NUL."""


def _held_place(form: str) -> str:
    if (found := CALLER_SECRET.fullmatch(form.removeprefix("caller:"))) is None:
        raise ValueError("${caller:NAME} needs a name of upper-case letters, digits and _")
    return f"\0{found[0]}\0"


def inserted(text: str, secrets: Mapping[str, str]) -> str | None:
    """Insert secrets of the caller into a text of the file; None if one that it needs is missing."""
    if not all(name in secrets for name in HELD_PLACE.findall(text)):
        return None
    return HELD_PLACE.sub(lambda found: secrets[found[1]], text)


def names_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the secrets of callers that the texts need."""
    return tuple(dict.fromkeys(HELD_PLACE.findall(" ".join(texts))))


_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<form>[^{}]*)\}")
_VARIABLE = re.compile(r"(?:(?P<kind>env|secret|input):)?(?P<name>[A-Za-z_][\w.-]*)(?P<default>:-.*)?", re.DOTALL)


class Texts:
    """Inserts variables into texts."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ = environ
        self._fixed = {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        self.inputs: dict[str, str | None] = {}
        self.secret_files: list[Path] = []

    def resolved(self, text: str) -> tuple[str, list[str]]:
        """Return the text with its variables, and the reason for each that cannot be inserted, which stays as it is.

        Raises `ValueError` for a reference that has no meaning. The message contains nothing else of the text.
        """
        missing: list[str] = []

        def value(found: re.Match[str]) -> str:
            if found["form"] is None:
                return "${"
            try:
                return self._value(found["form"])
            except MissingSecret as error:
                missing.append(str(error).rstrip("."))
                return found[0]

        return _REFERENCE.sub(value, text), missing

    def _value(self, form: str) -> str:
        """Return the value of a reference. Raises `ValueError` and `MissingSecret`."""
        if form in self._fixed:
            return self._fixed[form]
        if form.startswith("caller:"):
            return _held_place(form)
        found = _VARIABLE.fullmatch(form)
        if found is None:
            forms = "${NAME}, ${NAME:-default}, ${secret:NAME} or ${caller:NAME}"
            raise ValueError(f"${{...}} has an unknown form; write {forms}")
        kind, name, default = found["kind"], found["name"], (found["default"] or "")[2:]
        if kind == "input":
            return self._input(name)
        if kind == "secret":
            return self._secret(name)
        value = self._environ.get(name)
        if not value and found["default"] is not None:
            return default
        if value is None:
            raise MissingSecret(name, f"{name} is not set in the environment of this process")
        if "\0" in value:
            raise MissingSecret(name, f"{name} contains the character NUL")
        if SECRET_NAME.search(name):
            hide_in_logs(name, value)
        return value

    def _secret(self, name: str) -> str:
        """Return the variable, or the content of the file that `NAME_FILE` names."""
        if not self._environ.get(name) and (file := self._environ.get(f"{name}_FILE")):
            self.secret_files.append(Path(file))
        return ToolSecrets.read([name], self._environ).value(name).get_secret_value()

    def _input(self, name: str) -> str:
        if name not in self.inputs:
            known = f"; the file has {suggested(self.inputs, name)}" if self.inputs else ""
            raise ValueError(f"`inputs` has no entry with the id {name[:100]!r}{known}")
        variable = re.sub(r"\W", "_", name).upper()
        try:
            return self._secret(variable)
        except MissingSecret:
            default = self.inputs[name]
            if default is None:
                reason = f"VS Code asks for {name!r}, Outlast cannot: set {variable} or {variable}_FILE"
                raise MissingSecret(variable, reason) from None
            return default
