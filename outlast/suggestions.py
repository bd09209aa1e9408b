"""Names that an error suggests for a wrong one: at most ten, similar ones first."""

from collections.abc import Collection
from difflib import get_close_matches

MAX_SUGGESTED = 10


def suggested(names: Collection[str], wrong: str = "") -> str:
    """Return up to ten of `names` as text, similar ones to `wrong` first, with the number of the others."""
    near = get_close_matches(wrong, names, n=MAX_SUGGESTED, cutoff=0.4) if wrong else []
    shown = [*near, *(name for name in names if name not in near)][:MAX_SUGGESTED]
    others = len(names) - len(shown)
    return ", ".join(shown) + (f", and {others} more" if others > 0 else "")
