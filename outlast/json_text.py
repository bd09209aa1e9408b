"""JSON with comments and trailing commas, as MCP clients write it: values with their positions, and changes of one
member of an object that leave every other character as it is.
"""

import json
import re
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

_TOKEN = re.compile(
    r'(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")|(?P<mark>[{}\[\]:,])'
    r'|(?P<word>[^\s{}\[\]:,"/]+)',
    re.DOTALL,
)
_DEEPEST = 200


class NotJson(Exception):
    """The text is not JSON. The message is the position of the error."""


class CannotEdit(Exception):
    """The place of the member has another type, or its name exists twice."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object."""

    start: int
    """Position of its name."""
    value: "Node"
    comma: int | None
    """Position of the comma after it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value, and where it is in the text."""

    start: int
    end: int
    value: JsonValue
    members: tuple[tuple[str, Member], ...] | None = None
    """Members of an object; None for other values."""
    entries: tuple["Node", ...] = ()
    """Entries of an array."""

    def member(self, name: str) -> Member | None:
        """Return the member with this name. Raises `CannotEdit` if there are two."""
        found = [member for key, member in self.members or () if key == name]
        if len(found) > 1:
            raise CannotEdit(f"it has {name!r} twice")
        return found[0] if found else None


def parsed(text: str) -> JsonValue:
    """Return the value of the text. Raises `NotJson`."""
    return read(text).value


def read(text: str) -> Node:
    """Return the value of the text with the positions of its parts. Raises `NotJson`."""
    return _Parser(text).document()


def with_member(text: str, path: tuple[str, str], value: JsonValue) -> str:
    """Return the text with `value` at `path`. Raises `NotJson` and `CannotEdit`."""
    if not text.strip():
        return _dumped({path[0]: {path[1]: value}}, "  ", 0) + "\n"
    root = _object(read(text), "it")
    layout = _Layout(text, root)
    outer = root.member(path[0])
    if outer is None:
        return layout.added(root, path[0], {path[1]: value}, depth=1)
    servers = _object(outer.value, repr(path[0]))
    inner = servers.member(path[1])
    if inner is None:
        return layout.added(servers, path[1], value, depth=2)
    if inner.value.value == value:
        return text
    dumped = layout.dumped(value, depth=2)
    return text[: inner.value.start] + dumped + text[inner.value.end :]


def without_member(text: str, path: tuple[str, str]) -> str:
    """Return the text without the value at `path`, if there is one. Raises `NotJson` and `CannotEdit`."""
    if not text.strip():
        return text
    outer = _object(read(text), "it").member(path[0])
    servers = _object(outer.value, repr(path[0])) if outer is not None else None
    inner = servers.member(path[1]) if servers is not None else None
    if servers is None or inner is None:
        return text
    return _removed(text, servers, inner)


def _object(node: Node, what: str) -> Node:
    if node.members is None:
        raise CannotEdit(f"{what} is not a JSON object")
    return node


def _removed(text: str, parent: Node, member: Member) -> str:
    line_start = len(text[: member.start].rstrip(" \t"))
    if member.comma is not None:
        end = member.comma + 1
        line_end = end + len(text[end:]) - len(text[end:].lstrip(" \t\r"))
        is_own_line = text[line_end : line_end + 1] == "\n" and text[line_start - 1 : line_start] == "\n"
        return text[:line_start] + text[line_end + 1 :] if is_own_line else text[: member.start] + text[end:]
    siblings = [other for _, other in parent.members or ()]
    head = text[: member.start].rstrip()
    if len(siblings) > 1 and (comma := siblings[-2].comma) is not None:
        head = head[:comma] + head[comma + 1 :]
    return head.rstrip() + text[member.value.end :]


class _Layout:
    """The indentation and the line ends of a text."""

    def __init__(self, text: str, root: Node) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        first = text[: root.members[0][1].start].rpartition("\n")[2] if root.members else ""
        self._indent = first if first and first.isspace() else "  "

    def dumped(self, value: JsonValue, *, depth: int) -> str:
        return _dumped(value, self._indent, depth).replace("\n", self._newline)

    def added(self, parent: Node, name: str, value: JsonValue, *, depth: int) -> str:
        """Return the text with another member, at the end of its object."""
        text, siblings = self._text, [member for _, member in parent.members or ()]
        at = parent.start + 1
        comma = ""
        if siblings:
            at = siblings[-1].value.end if siblings[-1].comma is None else siblings[-1].comma + 1
            comma = "," if siblings[-1].comma is None else ""
        between = text[at : parent.end - 1]  # comments stay where they are
        line = f"{self._newline}{self._indent * depth}{json.dumps(name)}: {self.dumped(value, depth=depth)}"
        blank = between[len(between.rstrip()) :]
        end = blank if "\n" in blank else f"{self._newline}{self._indent * (depth - 1)}"
        return text[:at] + comma + between.rstrip() + line + end + text[parent.end - 1 :]


def _dumped(value: JsonValue, indent: str, depth: int) -> str:
    lines = json.dumps(value, indent=indent, ensure_ascii=False).split("\n")
    return f"\n{indent * depth}".join(lines)


class _Parser:
    """A parser that keeps positions."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scanned()
        self._at = 0

    def document(self) -> Node:
        node = self._value(0)
        if self._at < len(self._tokens):
            raise self._unexpected(self._tokens[self._at].start)
        return node

    def _scanned(self) -> list[_Token]:
        tokens: list[_Token] = []
        at = 0
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._unexpected(at)
            if match.lastgroup != "blank":
                tokens.append(_Token(str(match.lastgroup), match[0], at))
            at = match.end()
        return tokens

    def _unexpected(self, at: int) -> NotJson:
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        # No part of the text: it can contain secrets.
        return NotJson(f"line {line}, column {column}")

    def _next(self, *expected: str) -> _Token:
        if self._at >= len(self._tokens):
            raise self._unexpected(len(self._text))
        token = self._tokens[self._at]
        if expected and token.text not in expected:
            raise self._unexpected(token.start)
        self._at += 1
        return token

    def _is_next(self, mark: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].text == mark

    def _value(self, depth: int) -> Node:
        token = self._next()
        if depth > _DEEPEST:
            raise self._unexpected(token.start)
        if token.text == "{":
            return self._object(token, depth)
        if token.text == "[":
            return self._array(token, depth)
        return Node(token.start, token.end, self._scalar(token))

    def _scalar(self, token: _Token) -> JsonValue:
        try:
            return cast(JsonValue, json.loads(token.text))
        except ValueError:
            raise self._unexpected(token.start) from None

    def _object(self, opening: _Token, depth: int) -> Node:
        members: list[tuple[str, Member]] = []
        while not self._is_next("}"):
            key = self._next()
            if key.kind != "string":
                raise self._unexpected(key.start)
            self._next(":")
            value = self._value(depth + 1)
            comma = self._next(",").start if self._is_next(",") else None
            members.append((str(self._scalar(key)), Member(key.start, value, comma)))
            if comma is None:
                break
        closing = self._next("}")
        found = {name: member.value.value for name, member in members}
        return Node(opening.start, closing.end, found, tuple(members))

    def _array(self, opening: _Token, depth: int) -> Node:
        entries: list[Node] = []
        while not self._is_next("]"):
            entries.append(self._value(depth + 1))
            if not self._is_next(","):
                break
            self._next(",")
        closing = self._next("]")
        return Node(opening.start, closing.end, [entry.value for entry in entries], entries=tuple(entries))
