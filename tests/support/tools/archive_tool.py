"""A tool whose answers are large and hold facts that can be asked for. Loaded with OUTLAST_TOOLS_FROM."""

import hashlib

from pydantic import BaseModel, Field

from outlast.workflows.tools.framework.phases import plain
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, tool

RECORDS = 500
_FILLING = "Nothing of interest happened on this day, and the keeper wrote a long and careful account of it. " * 4


class Wanted(Arguments):
    """Which volume of the archive."""

    volume: int = Field(ge=0)


class Record(BaseModel):
    number: int
    code: str
    account: str


class Volume(BaseModel):
    records: list[Record]


def code_of(volume: int, record: int) -> str:
    """The fact of a record: nobody can know it without having read it."""
    return hashlib.sha256(f"{volume}/{record}".encode()).hexdigest()[:16]


@plain
async def _read_volume(args: Wanted) -> Volume:
    """More than 200 KB as JSON."""
    return Volume(
        records=[
            Record(number=number, code=code_of(args.volume, number), account=_FILLING) for number in range(RECORDS)
        ]
    )


TOOLS: tuple[Tool, ...] = (
    tool("read-volume")
    .category(Category.DEV)
    .describe("Reads a volume of the archive: all its records.")
    .args(Wanted)
    .output(Volume)
    .server(_read_volume)
    .build(),
)
