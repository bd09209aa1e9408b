"""Downloads of stored outputs: streamed, and resumed where they stopped when the connection is lost."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from outlast.api.cli.errors import BadInput, Unreachable
from outlast.api.cli.http.client import ApiClient


@dataclass(frozen=True, slots=True)
class Span:
    """From `start`, up to and without `end`; None is the end of what there is."""

    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """Which part of an output; the whole when nothing is set."""

    rows: Span | None = None
    byte_span: Span | None = None
    fields: str | None = None
    where: str | None = None
    query: str | None = None

    @property
    def is_content(self) -> bool:
        """Whether bytes are wanted as they were stored, not rows that are selected."""
        return not (self.rows or self.fields or self.where or self.query)

    def params(self) -> dict[str, str | int]:
        """The query parameters of `GET /v1/outputs/{locator}`."""
        found: dict[str, str | int] = {}
        if self.rows is not None:
            found["offset"] = self.rows.start
            if self.rows.end is not None:
                found["limit"] = self.rows.end - self.rows.start
        named = {"fields": self.fields, "filter": self.where, "query": self.query}
        return found | {name: value for name, value in named.items() if value}


def parse_span(text: str, option: str) -> Span:
    """`FROM:TO` as `option` takes it. Raises `BadInput`."""
    start, colon, end = text.partition(":")
    if not colon or not all(part.isdecimal() or not part for part in (start, end)):
        raise BadInput(f"{option} takes FROM:TO, not {text!r}.", hint=f"For example `{option} 100:200`")
    span = Span(int(start or 0), int(end) if end else None)
    if span.end is not None and span.end <= span.start:
        raise BadInput(f"{option} {text} is empty.", hint="TO is the first one that is not wanted any more.")
    return span


async def download(client: ApiClient, locator: str, part: Part) -> AsyncGenerator[bytes]:
    """The part, in pieces. Raises `CliError`.

    Bytes as they were stored go on where they stopped after a lost connection; selected rows cannot, since how many
    were read is not known, and say so.
    """
    if not part.is_content and part.byte_span is not None:
        raise BadInput("--bytes cannot be combined with a selection of rows.", hint="Choose one of them.")
    span = part.byte_span or Span(0, None)
    done = 0
    patience = client.patience()
    while True:
        try:
            headers = _range_header(span.start + done, span.end) if part.is_content else {}
            async with client.content(locator, params=part.params(), headers=headers) as pieces:
                async for piece in pieces:
                    done += len(piece)
                    patience.over()
                    yield piece
            return
        except Unreachable as away:
            if done and not part.is_content:
                raise
            await patience.wait(away)


def _range_header(start: int, end: int | None) -> dict[str, str]:
    if start == 0 and end is None:
        return {}
    return {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
