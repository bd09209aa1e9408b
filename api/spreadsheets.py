"""CSV cells that a spreadsheet would compute as formulas, escaped with a leading apostrophe.

Text of a tool, page or caller may begin with `=`; computed, it could read other cells and send them away (OWASP, "CSV
Injection").
"""

import re

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def safe_cell(value: object) -> object:
    """`value` with an apostrophe before it where a spreadsheet would compute it; numbers stay numbers."""
    if isinstance(value, str) and value.startswith(_BEGINNINGS) and _NUMBER.fullmatch(value) is None:
        return f"'{value}"
    return value
