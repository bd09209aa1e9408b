"""Reading a policy file (TOML)."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError

from outlast.activities.spending.contracts import SpendingCaps
from outlast.api.access.key_hashes import KeyHash
from outlast.api.access.policy.contracts import (
    CallerEntry,
    KeyEntry,
    Limits,
    OAuthEntry,
    PermissionEntry,
    Policy,
    ResurrectEntry,
)
from outlast.api.access.policy.shrinkage import PolicyText, said_lines

MAX_BYTES = 4 * 1024 * 1024
_MODELS: tuple[type[BaseModel], ...] = (
    Policy,
    CallerEntry,
    KeyEntry,
    Limits,
    OAuthEntry,
    PermissionEntry,
    ResurrectEntry,
    SpendingCaps,
)


class PolicyError(ValueError):
    """The policy cannot be used. `problems` has one line for each reason, without any secret of the file."""

    def __init__(self, path: Path, problems: Iterable[str]) -> None:
        """Problems of the file at `path`."""
        self.problems = tuple(problems)
        super().__init__(f"{path}: " + "; ".join(self.problems))


def read_policy(path: Path) -> Policy:
    """The policy in the file at `path`. Raises `PolicyError` with a line for each thing that is wrong."""
    return read_policy_text(path).policy


def read_policy_text(path: Path) -> PolicyText:
    """`read_policy`, and the text of the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(path, [f"cannot be read: {error.strerror or error}"]) from error
    return PolicyText(text, parse_policy(path, text))


def parse_policy(path: Path, text: bytes) -> Policy:
    """The policy in `text`, which is or shall be the file at `path`. Raises `PolicyError`."""
    if len(text) > MAX_BYTES:
        raise PolicyError(path, [f"is larger than {MAX_BYTES} bytes"])
    try:
        content: dict[str, object] = tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        raise PolicyError(path, [f"is not UTF-8 (byte {error.start})"]) from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:  # a number of too many digits
        raise PolicyError(path, [f"is not TOML: {error}"]) from None
    if not content:
        raise PolicyError(path, ['is empty: restore it, or write what holds, such as anonymous = "none"'])
    try:
        policy = Policy.model_validate(content)
    except ValidationError as error:
        raise PolicyError(path, _problems(error)) from None
    problems = [*_cuts(policy, text), *_double_keys(policy), *_unusable_keys(policy), *_double_tokens(policy)]
    if problems:
        raise PolicyError(path, problems)
    return policy


def weak_points(file: PolicyText) -> list[str]:
    """One line for each thing in a usable policy that an accident could make worse."""
    found: list[str] = []
    policy = file.policy
    if policy.end is None:
        found.append(
            "there is no end mark, so a file that is cut off may be taken for a whole one: write `end_mark = true` as "
            "the first line and `[end]` as the last"
        )
    elif not file.is_whole:
        found.append("there are lines after `[end]`, so a cut in them is not noticed: move `[end]` to the end")
    if policy.anonymous not in (None, "none") and policy.keys:
        found.append(
            f'anonymous = "{policy.anonymous}" lets requests without a key in as `local`, with all scopes, although '
            "there are keys"
        )
    return found


def _cuts(policy: Policy, text: bytes) -> list[str]:
    """The file is not cut off, as far as it says so itself."""
    if policy.end_mark and not next(said_lines(text)).startswith(b"end_mark"):
        return ["end_mark: must be the first line, so that no part of the file is taken for a file without end mark"]
    if policy.end_mark and policy.end is None:
        return ["is cut off: it says end_mark = true, but does not end with [end]. Restore it"]
    return []


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return [f"{_place(entry['loc'])}: {_reason(entry['type'], entry['loc'], entry['msg'])}" for entry in found]


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(
        f'"{part}"' if isinstance(part, str) and not part.isidentifier() else str(part) for part in location
    )


def _reason(kind: str, location: tuple[int | str, ...], message: str) -> str:
    if kind != "extra_forbidden":
        return message
    known = {name for model in _MODELS for name in model.model_fields}
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"there is no such setting{f'; did you mean {near[0]!r}?' if near else ''}"


def _double_keys(policy: Policy) -> list[str]:
    ids = [key.id for key in policy.keys]
    return [f"keys: two keys have the id {name!r}" for name in sorted({name for name in ids if ids.count(name) > 1})]


def _unusable_keys(policy: Policy) -> list[str]:
    found: list[str] = []
    for key in policy.keys:
        if not key.caller.startswith("key:"):
            found.append(f"keys: the caller of {key.id!r} must be a caller of API keys, `key:NAME`")
        try:
            KeyHash.parse(key.hash)
        except ValueError as error:
            found.append(f"keys: the hash of {key.id!r} {error}")
    return found


def _double_tokens(policy: Policy) -> list[str]:
    entries: Mapping[str, CallerEntry] = {"defaults": policy.defaults, **policy.callers}
    return [
        f"{name}: name either apify_token_env or apify_token_file"
        for name, entry in entries.items()
        if entry.apify_token_env is not None and entry.apify_token_file is not None
    ]
