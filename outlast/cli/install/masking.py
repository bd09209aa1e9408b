"""A change as its user sees it: the lines that are removed and added, without secrets."""

import json
import re
from collections.abc import Mapping
from difflib import ndiff
from typing import cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic import JsonValue

from outlast.cli.install import toml_text
from outlast.cli.install.clients import McpClient

_HIDDEN = "***"
_OPEN = frozenset({"type", "command", "cwd", "bearer_token_env_var"})
_ADDRESSES = frozenset({"url", "serverUrl", "httpUrl"})
_SECRET_NAME = re.compile(r"(?i)token|key|secret|password|auth")
_REFERENCE = re.compile(r"(Bearer )?(\$[A-Za-z_]\w*|\$\{(env:|input:)?[\w-]+\})")
"""Of a variable: no secret itself."""


def difference(client: McpClient, name: str, before: JsonValue, after: JsonValue) -> list[str]:
    """Lines that begin with `-`, `+` or a blank: the server `name` as it was and as it will be.

    Values of headers and variables are `***`; where only such a value changes, the new one is `*** (new)`. Nothing
    of the file but this one server is shown.
    """
    old = _lines(client, name, _masked(before, None))
    new = _lines(client, name, _masked(after, before))
    return [line.rstrip() for line in ndiff(old, new) if not line.startswith("?")]


def _lines(client: McpClient, name: str, value: JsonValue) -> list[str]:
    if value is None:
        return []
    if client.syntax == "toml" and isinstance(value, dict):
        return toml_text.dumped((client.servers, name), value).splitlines()
    return f"{json.dumps(name)}: {json.dumps(value, indent=2, ensure_ascii=False)}".splitlines()


def _masked(entry: JsonValue, other: JsonValue) -> JsonValue:
    if not isinstance(entry, dict):
        return entry if entry is None else _HIDDEN
    others = other if isinstance(other, dict) else {}
    return {key: _masked_field(key, value, others.get(key)) for key, value in entry.items()}


def _masked_field(key: str, value: JsonValue, other: JsonValue) -> JsonValue:
    if key in _OPEN:
        return value
    if key in _ADDRESSES and isinstance(value, str):
        return _masked_address(value)
    if key == "args" and isinstance(value, list):
        return _masked_arguments(value)
    if isinstance(value, dict):
        others: Mapping[str, JsonValue] = other if isinstance(other, dict) else {}
        return {name: _hidden(one, others.get(name)) for name, one in value.items()}
    return value if isinstance(value, bool | int | float) else _hidden(value, other)


def _hidden(value: JsonValue, other: JsonValue) -> str:
    if isinstance(value, str) and _REFERENCE.fullmatch(value):
        return value
    return _HIDDEN if other is None or value == other else f"{_HIDDEN} (new)"


def _masked_address(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return _HIDDEN
    query = [
        (name, _HIDDEN if _SECRET_NAME.search(name) else value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe=",/*"), parts.fragment))


def _masked_arguments(arguments: list[JsonValue]) -> JsonValue:
    """Without the values of `--token` and similar flags."""
    shown: list[JsonValue] = []
    is_secret = False
    for argument in arguments:
        name, separator, _ = str(argument).partition("=")
        is_flag = name.startswith("-") and _SECRET_NAME.search(name) is not None
        is_header = name == "--header"
        shown.append(_HIDDEN if is_secret else f"{name}={_HIDDEN}" if is_flag and separator else argument)
        is_secret = (is_flag or is_header) and not separator
    return cast(JsonValue, shown)
