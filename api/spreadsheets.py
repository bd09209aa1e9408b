"""Cells of CSV that a spreadsheet would take for formulas, written so that it shows them as text.

Text of a tool, a page or another caller may begin with `=`, and a spreadsheet that opens the file then computes it: it
can read other cells and send them away (OWASP, "CSV Injection"). A leading apostrophe makes it text.
"""

import re

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def safe_cell(value: object) -> object:
    """`value` with an apostrophe before it where a spreadsheet would compute it; numbers stay numbers."""
    if isinstance(value, str) and value.startswith(_BEGINNINGS) and _NUMBER.fullmatch(value) is None:
        return f"'{value}"
    return value
