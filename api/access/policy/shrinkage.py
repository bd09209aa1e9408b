"""Whether a changed policy file lost something by accident: cut by an editor, by `cp` or by a full disk.

Less of a file allows more: without its last keys nobody is known, and without its last rules nothing is denied.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from outlast.api.access.policy.contracts import Policy

_END = re.compile(rb"\[[ \t]*end[ \t]*\][ \t]*(#.*)?")


@dataclass(frozen=True)
class PolicyText:
    """A policy file as it was read."""

    text: bytes
    policy: Policy

    @cached_property
    def is_whole(self) -> bool:
        """Whether its last line is the end mark, which proves that nothing is cut off."""
        *_, last = said_lines(self.text)
        return self.policy.end is not None and _END.fullmatch(last) is not None


def said_lines(text: bytes) -> Iterator[bytes]:
    """The lines of a file that are neither blank nor a comment, without white space around them."""
    lines = (line.strip() for line in text.splitlines())
    return (line for line in lines if line and not line.startswith(b"#"))


def shrinkage(in_force: PolicyText, changed: PolicyText) -> list[str]:
    """One line for each reason not to take `changed` instead of the file in force; none for an edit that is meant.

    The last key goes only with a file that is known to be whole and says, in `anonymous`, what holds without keys.
    """
    found: list[str] = []
    before, after = in_force.policy, changed.policy
    if before.end is not None and after.end is None:
        found.append("has lost its end mark: the policy in force has the line [end], so this one must have it, too")
    elif before != after and _is_beginning(changed.text, in_force.text):
        found.append(
            "is the beginning of the policy in force, so it looks cut off; if you have removed the rest, write [end] "
            "as its last line, or a comment above that line if it is there"
        )
    if before.keys and not after.keys and not (changed.is_whole and after.anonymous is not None):
        found.append(
            "has lost its last key; if you have removed it, write what holds without keys, such as "
            'anonymous = "none", and [end] as the last line'
        )
    return found


def _is_beginning(part: bytes, whole: bytes) -> bool:
    return len(part.strip()) < len(whole.strip()) and whole.strip().startswith(part.strip())
