"""How saved calls are shown on the command line."""

import json
from collections.abc import Sequence

from rich.markup import escape

from outlast.cli.show.tables import Column
from outlast.cli.show.wording import ago, local_time, one_line
from outlast.client import SavedCall

SAVED_COLUMNS = (
    Column("NAME"),
    Column("TOOL", rank=1, least=12),
    Column("ARGUMENTS", rank=2, least=12, most=60),
    Column("NOTE", rank=3, least=8, most=30),
    Column("AGE", rank=4),
)


def saved_row(saved: SavedCall) -> Sequence[str]:
    """A saved call as a row of a list."""
    note = "[red]damaged[/]" if saved.damaged else escape(one_line(saved.note))
    return (escape(saved.name), escape(saved.tool), escape(_json(saved.arguments)), note, ago(saved.saved_at))


def saved_sheet(saved: SavedCall) -> list[tuple[str, str]]:
    """All that is known of a saved call."""
    rows = [
        ("name", escape(saved.name)),
        ("note", escape(one_line(saved.note))),
        ("damaged", escape(saved.damaged or "")),
        ("tool", escape(saved.tool)),
        ("mode", escape(saved.mode or "")),
        ("arguments", escape(_json(saved.arguments))),
        ("options", escape(_json(saved.options)) if saved.options else ""),
        ("saved", local_time(saved.saved_at)),
    ]
    return [(name, value) for name, value in rows if value]


def _json(document: object) -> str:
    return one_line(json.dumps(document, ensure_ascii=False))
