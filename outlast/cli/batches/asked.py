"""What a batch is started with, as the command line says it, and as the client takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from outlast.cli.ask.until_conditions import until_of
from outlast.cli.errors import BadInput

_WHOLE = frozenset({"failures", "seconds", "completed", "rows"})
_RULES = (*sorted(_WHOLE), "failure_share", "categories", "under_way")
_TABS = frozenset({"tab", "\\t"})


class SaveTo(NamedTuple):
    """A file for results, and whether its CSV is for spreadsheets."""

    path: Path
    csv_safe: bool

    @classmethod
    def at(cls, path: Path | None, *, csv_safe: bool) -> "SaveTo | None":
        """The file at `path`; None without one."""
        return None if path is None else cls(path, csv_safe)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the items come from, and how rows become items."""

    file: Path | None
    output: str | None
    dataset: str | None
    mapping: Sequence[str]
    key: str | None
    delimiter: str | None

    def check(self) -> None:
        """Raise `BadInput` unless there is one source of items."""
        if len([source for source in (self.file, self.output, self.dataset) if source is not None]) != 1:
            raise BadInput(
                "A batch needs items: a FILE, --output LOCATOR, or --dataset ID.",
                hint="An example: `outlast batch run outlast/sleeper items.jsonl`.",
            )


@dataclass(frozen=True, slots=True)
class ItemLimits:
    """What one item may use."""

    max_usd: float | None
    max_items: int | None
    max_run_seconds: float | None
    deadline_seconds: float | None
    until: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reusing:
    """Whether equal calls may answer items."""

    max_age: str | None = None
    refresh: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """What a resume or a retry may change, too."""

    concurrency: int | None
    budget_usd: float | None
    stop: Sequence[str]

    def options(self) -> dict[str, Any]:
        """As the client takes them. Raises `BadInput`."""
        rules = {name: _rule(name, text) for name, text in _pairs(self.stop, "--stop", "failures=10").items()}
        return {"concurrency": self.concurrency, "budget_usd": self.budget_usd, "stop": rules or None}


@dataclass(frozen=True, slots=True)
class Asked:
    """A batch that is to be started."""

    tool: str
    source: Source
    pairs: Sequence[str]
    limits: ItemLimits
    changes: Changes
    retries: Sequence[str]
    order: str | None
    mode: str | None
    name: str | None
    reuse: Reusing = Reusing()

    def options(self) -> dict[str, Any]:
        """The options of `client.batches`. Raises `BadInput`."""
        source, limits = self.source, self.limits
        return {
            **self.changes.options(),
            "mode": self.mode,
            "name": self.name,
            "order": self.order,
            "retries": _retries(self.retries) or None,
            "mapping": _pairs(source.mapping, "--map", "startUrls.0.url=page") or None,
            "key": source.key,
            "delimiter": "\t" if source.delimiter in _TABS else source.delimiter,
            "deadline_seconds": limits.deadline_seconds,
            "max_usd": limits.max_usd,
            "max_items": limits.max_items,
            "max_run_seconds": limits.max_run_seconds,
            "until": until_of(limits.until),
            "reuse": self.reuse.max_age,
            "refresh": self.reuse.refresh or None,
        }


def _rule(name: str, text: str) -> Any:
    if name not in _RULES:
        raise BadInput(f"There is no rule {name!r} of --stop.", hint=f"There are: {', '.join(_RULES)}.")
    try:
        if name in _WHOLE:
            return int(text)
        if name == "failure_share":
            return float(text)
    except ValueError:
        raise BadInput(f"--stop {name}={text}: that is no number.") from None
    return [part.strip() for part in text.split(",")] if name == "categories" else text


def _pairs(texts: Sequence[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} takes NAME=VALUE, not {text!r}.", hint=f"An example: {option} {example}")
        found[name] = value
    return found


def _retries(texts: Sequence[str]) -> Mapping[str, int]:
    found = _pairs(texts, "--retry", "rate_limit=3")
    wrong = next((text for text in found.values() if not text.isdecimal()), None)
    if wrong is not None:
        raise BadInput(f"--retry takes CATEGORY=NUMBER, not {wrong!r}.", hint="An example: --retry rate_limit=3")
    return {category: int(text) for category, text in found.items()}
