"""Locators that a running task refers to: what a sweep must not remove although its time is over."""

import re

REFERENCES_ATTRIBUTE = "OutlastLocators"
"""Search attribute of type KeywordList, set when a task starts."""

MAX_REFERENCES = 100
"""Those beyond are not protected. Temporal takes 2 KB per search attribute, so the entries are short as well."""

_LOCATOR = re.compile(r"out_[a-z2-7]{13}_([a-z2-7]{16})[a-z2-7]{16}_[a-z2-7]{6}")


def references_in(text: str) -> tuple[str, ...]:
    """Short names of the locators in a text, each once: the first 16 characters behind the second underscore."""
    return tuple(dict.fromkeys(_LOCATOR.findall(text)))[:MAX_REFERENCES]


def reference_to(locator: str) -> str:
    """The short name of one locator."""
    return locator.split("_")[2][:16]
