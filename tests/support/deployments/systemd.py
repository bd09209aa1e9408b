"""Units of systemd, as far as tests read them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SPECIFIERS = {"%S": "/var/lib", "%L": "/var/log", "%t": "/run", "%d": "/run/credentials"}


@dataclass(frozen=True)
class Unit:
    """The lines of a unit, by key and in order."""

    lines: tuple[tuple[str, str], ...]

    def all(self, key: str) -> list[str]:
        """Every value of `key`."""
        return [value for name, value in self.lines if name == key]

    def one(self, key: str) -> str:
        """The last value of `key`, which is the one that counts."""
        return self.all(key)[-1]

    @property
    def environment(self) -> Mapping[str, str]:
        """What the process gets, with folders as on a usual machine."""
        return dict(_resolved(value).split("=", 1) for value in self.all("Environment"))


def read_unit(path: Path) -> Unit:
    """The unit in `path`. A line that ends with a backslash goes on in the next one."""
    joined = re.sub(r"\s*\\\n\s*", " ", path.read_text())
    pairs = (line.partition("=") for line in joined.splitlines() if line[:1].isalpha())
    return Unit(tuple((key, value) for key, _, value in pairs))


def _resolved(value: str) -> str:
    for specifier, folder in _SPECIFIERS.items():
        value = value.replace(specifier, folder)
    return value
