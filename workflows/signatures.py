"""Short digests that are equal for equal failures, and for identical calls with equal answers. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.secrets import masked
from outlast.workflows.contracts.tool_calls import ToolResult

_IDS = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"  # UUIDs
    r"|\bout_[a-z2-7_]+"  # locators
    r"|\b[\w-]+-[0-9a-f]{16,}\b"  # tasks: the tool's name and a digest
    r"|\b[0-9a-f]{16,}\b"
    r"|\b(?=\w*\d|\w*[a-z]\w*[A-Z])[A-Za-z0-9]{17}\b"  # Apify's runs, Actors, datasets and stores
)
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")
"""Counts, durations, and the parts of dates and times."""


def signature(envelope: ErrorEnvelope, arguments: Mapping[str, JsonValue] | None = None) -> str:
    """A digest that is equal for equal failures of the same tool.

    Ids, times and counts in the message make no difference. Different `arguments` do, except where the failure is not
    about them: the tool may not be called or does not exist, nobody is logged in, or violations of the schema already
    say which part of them is wrong.
    """
    parts: list[JsonValue] = [envelope.tool, envelope.category.value, _without_numbers(envelope.message)]
    parts += [f"{violation.path}: {_without_numbers(violation.message)}" for violation in envelope.violations or ()]
    return _digest(parts, arguments if _is_about_arguments(envelope) else None)


def answer_signature(tool: str, arguments: Mapping[str, JsonValue], result: ToolResult) -> str:
    """A digest that is equal for the same call of the same tool with the same answer.

    A run that did the same as another one is the same answer: the ids of a run and of its storages make no difference.
    """
    answer = result.text or json.dumps(result.structured, sort_keys=True)
    for own_id in _ids_of_run(result.structured or {}):
        answer = answer.replace(own_id, "#")
    return _digest([tool, answer], arguments)


def _ids_of_run(report: Mapping[str, JsonValue]) -> list[str]:
    match report:
        case {
            "runId": str(run),
            "storages": {
                "datasets": {"default": {"id": str(dataset)}},
                "keyValueStores": {"default": {"id": str(store)}},
            },
        }:
            return [run, dataset, store]
        case _:
            return []


def _is_about_arguments(envelope: ErrorEnvelope) -> bool:
    names_the_flaw = envelope.violations or envelope.allowed_tools is not None
    return not names_the_flaw and envelope.category is not ErrorCategory.AUTHENTICATION


def _without_numbers(message: str) -> str:
    return _NUMBERS.sub("#", _IDS.sub("#", message))


def _digest(parts: list[JsonValue], arguments: Mapping[str, JsonValue] | None) -> str:
    # The same secret is sealed differently each time.
    asked = masked(dict(arguments)) if arguments else None
    text = json.dumps([*parts, asked], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
