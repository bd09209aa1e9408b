"""Text in one line that can neither look like lines of ours nor steer a terminal. Pure."""

import re

# Control characters (C0, C1), line and paragraph separators, marks that reorder text, halves of characters.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def printable(text: str) -> str:
    r"""`text` in one line, with what is no visible character written as an escape (`\n`, `\x1b`, `\u2028`)."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)
