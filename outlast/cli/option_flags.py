"""Flags of commands: made from the options that `outlast.contracts.options` declares, or declared for Typer."""

import json
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from types import NoneType
from typing import Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from outlast.cli.args import parse_duration, parse_usd, read_arguments, until_of
from outlast.cli.errors import BadInput
from outlast.contracts.options import Option, if_set

_SHORT = {"concurrency": "-c", "mapping": "-m"}
_PARSERS: Mapping[str | None, Callable[[str], float]] = {"TIME": parse_duration, "USD": parse_usd}
_WHOLE_RULES = frozenset({"failures", "seconds", "completed", "rows"})
_RULES = (*sorted(_WHOLE_RULES), "failure_share", "categories", "under_way")


def flags_of(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a command that takes the options of `kind`, a `TypedDict`, by name.

    A field is annotated with an `Option`, or with a flag of Typer that is used unchanged.
    """
    found: dict[str, Parameter] = {}
    for name, annotation in kind.__annotations__.items():
        type_, *facts = get_args(annotation)
        for fact in facts:
            if isinstance(fact, Option) and fact.flag is not None:
                found[name] = _parameter(name, type_, fact)
            elif isinstance(fact, OptionInfo):
                found[name] = flag(name, annotation, default=False if type_ is bool else None)
    return found


def flag(name: str, annotation: object, default: object = None) -> Parameter:
    """Return the parameter of a command that Typer makes a flag of."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def read_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, by name, in the form of the client. Raises `BadInput`."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    return {name: _READERS[name](value) if name in _READERS else value for name, value in found.items()}


def _parameter(name: str, annotation: Any, option: Option) -> Parameter:
    long = option.flag or ""
    if name in _READERS:
        type_: Any = list[str]
    else:
        (type_,) = [part for part in get_args(annotation) or (annotation,) if part is not NoneType]
    if type_ is bool and option.encode is not if_set:
        long = f"{long}/--no-{long.removeprefix('--')}"
    facts: dict[str, Any] = {"metavar": option.metavar, "rich_help_panel": option.panel, "show_default": False}
    if type_ is float and option.metavar in _PARSERS:
        facts["parser"] = _PARSERS[option.metavar]
    elif type_ in (int, float):
        facts |= {"min": option.min, "max": option.max}
    names = (long, _SHORT[name]) if name in _SHORT else (long,)
    declared = typer.Option(*names, help=f"{option.help}{_FORMS.get(name, '')}", **facts)
    return flag(name, Annotated[type_ | None, declared])


def _rule(name: str, text: str) -> Any:
    if name not in _RULES:
        raise BadInput(f"--stop has no rule {name!r}.", hint=f"The rules: {', '.join(_RULES)}.")
    try:
        if name in _WHOLE_RULES:
            return int(text)
        if name == "failure_share":
            return float(text)
    except ValueError:
        raise BadInput(f"--stop {name}={text}: {json.dumps(text)} is not a number.") from None
    return [part.strip() for part in text.split(",")] if name == "categories" else text


def _retries(texts: Sequence[str]) -> dict[str, int]:
    found = _pairs(texts, "--retry", "rate_limit=3")
    wrong = next((text for text in found.values() if not text.isdecimal()), None)
    if wrong is not None:
        raise BadInput(f"--retry takes CATEGORY=NUMBER, not {wrong!r}.", hint="An example: --retry rate_limit=3")
    return {category: int(text) for category, text in found.items()}


def _pairs(texts: Sequence[str], option: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise BadInput(f"{option} takes NAME=VALUE, not {text!r}.", hint=f"An example: {option} {example}")
        found[name] = value
    return found


_READERS: Mapping[str, Callable[[Sequence[str]], Any]] = {
    "until": until_of,
    "stop": lambda texts: {name: _rule(name, text) for name, text in _pairs(texts, "--stop", "failures=10").items()},
    "retries": _retries,
    "mapping": lambda texts: _pairs(texts, "--map", "startUrls.0.url=page"),
    "webhooks": lambda texts: [read_arguments(text, []) for text in texts],
    "categories": list,
}
"""Repeatable options, and how their values become one. Each raises `BadInput`."""
_FORMS = {
    "until": " Repeatable: rows=100, usd=0.5, expression='JMESPath over a row', matches=10.",
    "stop": " Repeatable: failures=10, failure_share=0.2, seconds=600, completed=100, rows=500, "
    "categories=timeout,payment; under_way=cancel cancels the rest.",
    "retries": " Repeatable: rate_limit=3.",
    "mapping": " Repeatable.",
    "webhooks": " Repeatable: a JSON object, or @FILE.",
    "categories": " Repeatable.",
    "deadline_seconds": " 90s, 10m, 2h.",
}
"""The form of values on the command line, added to the help of the option."""
