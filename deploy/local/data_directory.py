"""Parts of a data directory: checked before a stack starts on it, recorded in `version.json` when the stack is up.

A start with a part that is missing, damaged or from another stack would create new keys or a new database and lose the
data of the other parts. It is refused, and the error names the parts. docs/embedded-stack.md describes the rules.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from outlast.deploy.local.config import Component, Outside, StackConfig
from outlast.deploy.local.errors import IncompleteDataError, NewerDataError, StackError
from outlast.deploy.local.state import SANDBOX_TOKEN_FILE, SEAL_KEYS_FILE, private_folder, replace_file
from outlast.fingerprints import StoreOwner, fingerprints, owner_key, parse_ring, ring_problem
from outlast.paths import store_folder

VERSION_FILE = "version.json"
RESTORED_FILE = "restored.json"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
_FINAL = ("z", 0)
TEMPORAL_DATABASE = "temporal/temporal.db"
SANDBOX_DATABASE = "sandbox/sandbox.sqlite"
OUTPUTS = "outputs"
POLICY_VARIABLE = "OUTLAST_POLICY_FILE"
_AUDIT_FILE = "audit/audit.jsonl"
_MOVED = (
    SEAL_KEYS_FILE, SANDBOX_TOKEN_FILE, RESTORED_FILE, "temporal", "sandbox", OUTPUTS, "audit", "workers", "ready",
    VERSION_FILE,
)  # fmt: skip
"""State of a stack. `version.json` is moved last: if the move is interrupted, the next start is refused again."""
_SYSTEM_NAMESPACE = "temporal-system"
_CHECKED_WHOLE_BYTES = 64 << 20
"""Databases up to this size are checked completely, larger ones only in their structure."""
_BUSY_SECONDS = 10
OWN_STORE = "own"
_EMPTY, _INCOMPLETE = "is empty", "is incomplete: a table is missing"
_CLOSED = "cannot be opened; it, its -wal or its -shm may belong to another user"
_CANNOT_OPEN = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY})
_UNFINISHED = frozenset({None, _EMPTY, _INCOMPLETE})
"""Problems of a database that is being created. None: it was created and is empty."""


class Finding(NamedTuple):
    """Part that cannot be used, and the reason: together one sentence without its full stop."""

    part: str
    problem: str


class Part(NamedTuple):
    """State of a database."""

    identity: Mapping[str, str]
    problem: str | None


class Belongings(BaseModel):
    """Fingerprints of the parts of one stack; empty for missing parts."""

    model_config = ConfigDict(frozen=True)

    keys: dict[str, str] = {}
    """Of the encryption keys, by key id, the current key first."""
    sandbox_token: dict[str, str] = {}
    """Of the token, under each encryption key."""
    namespaces: dict[str, str] = {}
    """Ids of the namespaces in the embedded Temporal database, by name."""
    sandbox: str | None = None
    """Id of the sandbox platform's database."""
    store: str | None = None
    """Folder of stored outputs in which a worker has recorded the owner; `own` for the folder in the directory."""
    restored: bool = False
    """True if the directory was restored from a backup."""
    policy: bool = False
    """True if the stack had a policy file."""


class LastVersion(BaseModel):
    """Content of `version.json`: the version of Outlast that last used the directory, and the parts."""

    model_config = ConfigDict(frozen=True)

    outlast_version: str
    belongings: Belongings | None = None
    """None if it was written by a version that recorded no parts."""


class VersionFileDamaged(StackError):
    """Version file that exists and cannot be read."""


class Restored(BaseModel):
    """Interval during which the system that was backed up continued without this copy.

    Restored workflows look for runs of this time before they start a run, see docs/decisions/0002-one-paid-run.md.
    """

    model_config = ConfigDict(frozen=True)

    backed_up_at: AwareDatetime
    resumed_at: AwareDatetime | None = None
    """Time of the first start on the directory; None before that."""


class DataDirectory:
    """Parts of one stack, in its data directory or where its environment names them."""

    def __init__(
        self,
        data_dir: Path,
        environment: Mapping[str, str],
        outside: Outside,
        components: frozenset[Component] = frozenset(Component),
    ) -> None:
        """Read the recorded parts. Raises `VersionFileDamaged`."""
        self._data_dir = data_dir
        self._environment = environment
        self._outside = outside
        self._components = outside.missing_of(components)
        self.recorded = _recorded(data_dir)
        """None for a directory of a version that recorded no parts."""
        self._is_older = self.recorded is None
        self._known = self.recorded or Belongings()

    def findings(self) -> list[Finding]:
        """Return the parts that cannot be used; none for a directory that is complete or new."""
        checks: Sequence[Callable[[], Iterator[Finding]]] = (
            self._check_keys, self._check_temporal, self._check_sandbox, self._check_sandbox_token, self._check_store,
            self._check_restored, self._check_policy,
        )  # fmt: skip
        return [*dict.fromkeys(finding for check in checks for finding in self._found_by(check))]

    def _found_by(self, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
        try:
            return [*check()]
        except OSError as error:
            path = Path(error.filename or self._data_dir)
            is_own = path.is_relative_to(self._data_dir)
            return [Finding(str(path.relative_to(self._data_dir) if is_own else path), _unreadable(error))]

    def current(self) -> Belongings:
        """Return the fingerprints of the parts. For parts that this stack does not run, the recorded ones are kept."""
        known, ring = self._known, self._ring()
        temporal = _temporal_database(self._data_dir).identity if Component.TEMPORAL in self._components else None
        token = self._sandbox_token()
        store, folder = self._store()
        has_owner = folder is not None and _read_owner(folder, self._outside.temporal_namespace) is not None
        is_sandbox = Component.SANDBOX in self._components
        return Belongings(
            keys=fingerprints(ring) if ring else known.keys,
            sandbox_token=_token_fingerprints(ring, token) if ring and token else known.sandbox_token,
            namespaces=dict(temporal or known.namespaces),
            sandbox=_sandbox_database(self._data_dir).identity.get("id") if is_sandbox else known.sandbox,
            store=store if has_owner else known.store,
            restored=(self._data_dir / RESTORED_FILE).is_file(),
            policy=bool(self._environment.get(POLICY_VARIABLE)),
        )

    @property
    def is_temporal_unfinished(self) -> bool:
        """True if the first start was interrupted while Temporal created its database, which it cannot continue."""
        found = _temporal_database(self._data_dir)
        is_new = self.recorded is not None and not self.recorded.namespaces
        exists = Component.TEMPORAL in self._components and (self._data_dir / TEMPORAL_DATABASE).exists()
        return is_new and exists and not found.identity and found.problem in _UNFINISHED

    def _check_keys(self) -> Iterator[Finding]:
        text, name = self._ring_text()
        if text is None:
            if name != SEAL_KEYS_FILE:
                yield Finding(name, "cannot be read")
            elif self._known.keys or self._is_older:
                yield Finding(name, "is missing: without it, encrypted data cannot be read")
            return
        try:
            ring = parse_ring(text)
        except ValueError as error:
            problem = "is empty" if not text.strip() else f"is damaged: {str(error).rstrip('.')}"
            yield Finding(name, problem)
            return
        problem = ring_problem(self._known.keys, ring)
        if problem is not None:
            yield Finding(name, f"does not belong to the data: {problem}")

    def _check_temporal(self) -> Iterator[Finding]:
        if Component.TEMPORAL not in self._components:
            return
        if not (self._data_dir / TEMPORAL_DATABASE).exists():
            if self._known.namespaces or self._is_older:
                yield Finding(TEMPORAL_DATABASE, "is missing: it holds all tasks, sessions, schedules and webhooks")
            return
        found = _temporal_database(self._data_dir)
        if self.is_temporal_unfinished:
            return
        if found.problem is not None:
            yield Finding(TEMPORAL_DATABASE, found.problem)
        elif _differ(self._known.namespaces, found.identity):
            yield Finding(TEMPORAL_DATABASE, "is the database of another stack")

    def _check_sandbox(self) -> Iterator[Finding]:
        if Component.SANDBOX not in self._components:
            return
        folder = self._data_dir / "sandbox"
        if not (self._data_dir / SANDBOX_DATABASE).exists():
            if self._known.sandbox or (self._is_older and _has_entries(folder / "datasets", folder / "runs")):
                yield Finding(SANDBOX_DATABASE, "is missing: it holds runs, storages and accounts of the sandbox")
            return
        found = _sandbox_database(self._data_dir)
        own = {"id": self._known.sandbox} if self._known.sandbox else {}
        if found.problem in _UNFINISHED - {None} and not own and not self._is_older:
            return  # The first start was interrupted. The platform continues with the file.
        if found.problem is not None:
            yield Finding(SANDBOX_DATABASE, found.problem)
        elif _differ(own, found.identity):
            yield Finding(SANDBOX_DATABASE, "is the database of another stack")
        else:
            for name in _missing_folders(self._data_dir):
                yield Finding(f"sandbox/{name}", "is missing: the sandbox's database refers to files in it")

    def _check_sandbox_token(self) -> Iterator[Finding]:
        if Component.SANDBOX not in self._components:
            return
        if not (self._data_dir / SANDBOX_TOKEN_FILE).exists():
            is_older = self._is_older and (self._data_dir / SANDBOX_DATABASE).exists()
            if self._known.sandbox_token or is_older:
                yield Finding(SANDBOX_TOKEN_FILE, "is missing: it holds the token of the sandbox's account")
            return
        token, ring = self._sandbox_token(), self._ring()
        if not token:
            yield Finding(SANDBOX_TOKEN_FILE, "is empty" if token is not None else "cannot be read")
        elif ring and _differ(self._known.sandbox_token, _token_fingerprints(ring, token)):
            yield Finding(SANDBOX_TOKEN_FILE, "is not the token that this stack used before")

    def _check_store(self) -> Iterator[Finding]:
        """Check the folder of outputs. For a store elsewhere, a worker makes the same check at its start."""
        store, folder = self._store()
        if folder is None:
            return
        shown = OUTPUTS if store == OWN_STORE else f"{folder} (OUTLAST_STORE_URL)"
        if self._known.store == store and not folder.is_dir():
            yield Finding(shown, "is missing: it holds stored outputs, conversations and saved calls")
            return
        try:
            owner = _read_owner(folder, self._outside.temporal_namespace)
        except ValueError:
            yield Finding(f"{shown}: {owner_key(self._outside.temporal_namespace)}", "is damaged")
            return
        if owner is None:
            if self._known.store == store:
                yield Finding(shown, "is not the folder of stored outputs that this stack used before, or was emptied")
        elif (problem := self._other_owner(owner)) is not None:
            yield Finding(shown, problem)

    def _other_owner(self, owner: StoreOwner) -> str | None:
        if Component.TEMPORAL in self._components:
            namespaces = _temporal_database(self._data_dir).identity
            own = namespaces.get(self._outside.temporal_namespace)
            if not namespaces and not self._known.namespaces:
                return "holds the outputs of a database that is missing"
            if own is not None and own != owner.namespace_id.replace("-", ""):
                return "holds the outputs of another database"
        ring = self._ring()
        problem = ring_problem(owner.keys, ring) if ring else None
        return f"was written with other encryption keys: {problem}" if problem else None

    def _check_restored(self) -> Iterator[Finding]:
        path = self._data_dir / RESTORED_FILE
        if not path.exists():
            if self._known.restored:
                yield Finding(RESTORED_FILE, "is missing: without it, runs from before the restore may be paid again")
            return
        try:
            Restored.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            yield Finding(RESTORED_FILE, "is empty or damaged: it prevents runs from being paid again")

    def _check_policy(self) -> Iterator[Finding]:
        """Check the policy. An empty variable is a decision against a policy; a missing one may have been forgotten."""
        if self._known.policy and POLICY_VARIABLE not in self._environment:
            yield Finding(
                POLICY_VARIABLE,
                "is not set, and this stack had a policy: without it, everybody who reaches the API may do anything. "
                f"Set it, or set it to an empty value (`{POLICY_VARIABLE}=`) to use no policy from now on",
            )

    def _ring_text(self) -> tuple[str | None, str]:
        """Return the encryption keys as text, None if they cannot be read, and the name of their place."""
        if text := self._environment.get("OUTLAST_SEAL_KEYS"):
            return text, "OUTLAST_SEAL_KEYS"
        named = self._environment.get("OUTLAST_SEAL_KEYS_FILE")
        path = Path(named) if named else self._data_dir / SEAL_KEYS_FILE
        text = path.read_text(errors="replace") if path.is_file() else None
        return text, f"{path} (OUTLAST_SEAL_KEYS_FILE)" if named else SEAL_KEYS_FILE

    def _ring(self) -> dict[str, bytes] | None:
        text, _ = self._ring_text()
        try:
            return parse_ring(text) if text is not None else None
        except ValueError:
            return None

    def _sandbox_token(self) -> str | None:
        path = self._data_dir / SANDBOX_TOKEN_FILE
        return path.read_text(errors="replace").strip() if path.is_file() else None

    def _store(self) -> tuple[str, Path | None]:
        """Return the name of the store, as recorded, and its folder, None for a store on another machine."""
        url = self._environment.get("OUTLAST_STORE_URL")
        folder = store_folder(url, self._data_dir)
        return (url, None) if url and folder is None else (str(folder) if url else OWN_STORE, folder)


def take_over(config: StackConfig, outside: Outside) -> str | None:
    """Check that the data directory is complete or new, and record that this version uses it.

    With `begin_anew`, an incomplete directory is moved aside first; the returned sentence names its new place. Raises
    `IncompleteDataError`, and `NewerDataError` if a newer version has used it; nothing is changed then.
    """
    require_not_newer(config.data_dir)
    note = None
    lines = broken_parts(config.data_dir, config.environment, outside, config.components)
    if lines and not config.begin_anew:
        raise IncompleteDataError(config.data_dir, lines)
    if lines:
        note = _begin_anew(config, outside)
    elif config.begin_anew:
        note = f"{config.data_dir} is complete, so --begin-anew changes nothing"
    if DataDirectory(config.data_dir, config.environment, outside, config.components).is_temporal_unfinished:
        for path in (config.data_dir / TEMPORAL_DATABASE).parent.glob(f"{Path(TEMPORAL_DATABASE).name}*"):
            path.unlink()
    last, own = read_last_version(config.data_dir), own_version()
    recorded = _recorded(config.data_dir)
    if own is not None and (last is None or (last.outlast_version, last.belongings) != (own, recorded)):
        write_last_version(config.data_dir, LastVersion(outlast_version=own, belongings=recorded))
    return note


def record(config: StackConfig, outside: Outside) -> None:
    """Record the fingerprints of the parts when the whole stack is up."""
    last = read_last_version(config.data_dir)
    current = DataDirectory(config.data_dir, config.environment, outside, config.components).current()
    if last is not None and last.belongings != current:
        write_last_version(config.data_dir, last.model_copy(update={"belongings": current}))


def require_not_newer(data_dir: Path) -> None:
    """Raise `NewerDataError` if a newer version has used the directory."""
    with suppress(VersionFileDamaged, OSError):
        last, own = read_last_version(data_dir), own_version()
        if last is not None and own is not None and _is_newer(last.outlast_version, own):
            raise NewerDataError(data_dir, last.outlast_version, own)


def read_last_version(data_dir: Path) -> LastVersion | None:
    """Return the content of the file, None if it is missing. Raises `VersionFileDamaged`."""
    try:
        return LastVersion.model_validate_json((data_dir / VERSION_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise VersionFileDamaged(f"{data_dir / VERSION_FILE} is empty or damaged.") from error


def write_last_version(data_dir: Path, last: LastVersion) -> None:
    """Replace the file in one step; it is on the disk when this returns."""
    replace_file(data_dir / VERSION_FILE, f"{last.model_dump_json()}\n")


def own_version() -> str | None:
    """Return the installed version, None if Outlast is not installed as a package."""
    try:
        return version("outlast")
    except PackageNotFoundError:
        return None


def write_restored(folder: Path, restored: Restored) -> None:
    """Replace the file in one step; it is on the disk when this returns."""
    replace_file(folder / RESTORED_FILE, f"{restored.model_dump_json(indent=2)}\n")


def resumed_interval(data_dir: Path) -> str | None:
    """Return `FROM/UNTIL` in ISO 8601 for `OUTLAST_RESTORED_INTERVAL`, None for a directory that was not restored.

    The first call ends the interval, since this stack works from then on.
    """
    path = data_dir / RESTORED_FILE
    if not path.is_file():
        return None
    restored = Restored.model_validate_json(path.read_bytes())
    if restored.resumed_at is None:
        restored = restored.model_copy(update={"resumed_at": datetime.now(UTC)})
        write_restored(data_dir, restored)
    until = restored.resumed_at or restored.backed_up_at
    return f"{restored.backed_up_at.isoformat()}/{until.isoformat()}"


def _is_newer(one: str, other: str) -> bool:
    """Compare two releases; False if one is not a release."""
    first, second = _order(one), _order(other)
    return first is not None and second is not None and first > second


def _order(text: str) -> tuple[tuple[int, int, int], tuple[str, int]] | None:
    match = _VERSION.match(text)
    if match is None:
        return None
    major, minor, patch, stage, number = match.groups()
    return (int(major), int(minor), int(patch)), (stage, int(number)) if stage else _FINAL


def broken_parts(
    data_dir: Path,
    environment: Mapping[str, str],
    outside: Outside,
    components: frozenset[Component] = frozenset(Component),
) -> list[str]:
    """Return a sentence for each part that cannot be used; none for a directory that is complete or new."""
    found = _misplaced(data_dir, environment, outside, outside.missing_of(components))
    try:
        # Misplaced parts cannot be read, and reading a pipe would not end.
        found = found or DataDirectory(data_dir, environment, outside, components).findings()
    except VersionFileDamaged:
        return [f"{VERSION_FILE} is empty or damaged. Remove it only if you are sure that the rest belongs together."]
    except OSError as error:
        return [f"{VERSION_FILE} {_unreadable(error)}."]
    return [f"{part} {problem}." for part, problem in found]


def _misplaced(
    data_dir: Path, environment: Mapping[str, str], outside: Outside, own: frozenset[Component]
) -> list[Finding]:
    """Find links with a missing target, folders in place of files, and files in place of folders.

    They are refused in a new directory, too: a disk is not mounted, or a container has created folders for files that
    should have been mounted.
    """
    files, folders = [VERSION_FILE, RESTORED_FILE], ["workers", "ready"]
    if not environment.get("OUTLAST_SEAL_KEYS") and not environment.get("OUTLAST_SEAL_KEYS_FILE"):
        files.append(SEAL_KEYS_FILE)
    if Component.TEMPORAL in own:
        files.append(TEMPORAL_DATABASE)
        folders.append("temporal")
    if Component.SANDBOX in own:
        files += [SANDBOX_TOKEN_FILE, SANDBOX_DATABASE]
        folders += ["sandbox", "sandbox/datasets", "sandbox/key-value-stores", "sandbox/runs"]
    if not environment.get("OUTLAST_STORE_URL"):
        files.append(f"{OUTPUTS}/{owner_key(outside.temporal_namespace)}")
        folders.append(OUTPUTS)
    if not environment.get("OUTLAST_AUDIT_FILE"):
        files.append(_AUDIT_FILE)
        folders.append("audit")
    kinds = [(name, os.path.isdir, "folder") for name in folders] + [(name, os.path.isfile, "file") for name in files]
    found: list[Finding] = []
    for name, is_right, kind in kinds:
        path = data_dir / name
        if not os.path.lexists(path) or is_right(path):
            continue
        if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110  # that of Path raises
            found.append(Finding(name, f"is a link to {path.readlink()}, which is not there or cannot be reached"))
        else:
            found.append(Finding(name, f"is not a {kind}"))
    return found


def _begin_anew(config: StackConfig, outside: Outside) -> str:
    """Move the old state aside. Raises `IncompleteDataError` if parts outside of the directory prevent a new start."""
    nowhere = config.data_dir / "new"
    others = broken_parts(nowhere, config.environment, outside, config.components)
    if others:
        raise IncompleteDataError(config.data_dir, others, is_outside=True)
    found = [config.data_dir / name for name in _MOVED if os.path.lexists(config.data_dir / name)]
    target = private_folder(config.data_dir / f"set-aside-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    for path in found:
        path.rename(target / path.name)
    return f"started empty: the old state is in {target}"


def _recorded(data_dir: Path) -> Belongings | None:
    """Return the recorded parts: empty for a new directory, None for one of a version that recorded none."""
    last = read_last_version(data_dir)
    if last is not None and last.belongings is not None:
        return last.belongings
    files = (TEMPORAL_DATABASE, SANDBOX_DATABASE, _AUDIT_FILE)
    is_older = any((data_dir / name).exists() for name in files) or _has_entries(data_dir / OUTPUTS)
    return None if is_older else Belongings()


def _differ(recorded: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Return whether `found` differs from the record: another value for a name, or no common name."""
    common = recorded.keys() & found.keys()
    return bool(recorded) and (not common or any(recorded[name] != found[name] for name in common))


def _token_fingerprints(ring: Mapping[str, bytes], token: str) -> dict[str, str]:
    return fingerprints(ring, SANDBOX_TOKEN_FILE, token.encode())


def _temporal_database(data_dir: Path) -> Part:
    """Read the ids of the namespaces, which Temporal creates at random, by name."""
    query = "SELECT name, lower(hex(id)) FROM namespaces"
    found = _read_database(data_dir / TEMPORAL_DATABASE, query)
    identity = {str(name): str(own_id) for name, own_id in found.rows if name != _SYSTEM_NAMESPACE}
    return Part(identity, found.problem)


def _sandbox_database(data_dir: Path) -> Part:
    path = data_dir / SANDBOX_DATABASE
    found = _read_database(path, "SELECT id FROM users LIMIT 1")
    if found.problem is not None:
        return Part({}, found.problem)
    # Databases of older versions have no identity; the sandbox adds it when it opens them.
    rows = _read_database(path, "SELECT id FROM identity").rows
    return Part({"id": str(rows[0][0])} if rows else {}, None)


def _missing_folders(data_dir: Path) -> list[str]:
    path, folder = data_dir / SANDBOX_DATABASE, data_dir / "sandbox"
    used = {
        "datasets": "SELECT 1 FROM storages WHERE kind = 'dataset' AND item_count > 0 LIMIT 1",
        "key-value-stores": "SELECT 1 FROM records LIMIT 1",
    }
    return [name for name, query in used.items() if not (folder / name).is_dir() and _read_database(path, query).rows]


class _Rows(NamedTuple):
    rows: Sequence[Sequence[object]]
    problem: str | None


def _read_database(path: Path, query: str) -> _Rows:
    """Query a database that may be in use; return the rows or the reason why it cannot be read. Raises `OSError`."""
    if _size(path) == 0:
        return _Rows([], _EMPTY)
    is_cut = _is_cut(path)
    # Nothing is written: no log is merged into a file that it may not belong to, and no empty log is created.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=_BUSY_SECONDS)) as database:
            rows = database.execute(query).fetchall()
            is_small = path.stat().st_size <= _CHECKED_WHOLE_BYTES
            if is_small and database.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                return _Rows([], "is damaged")
    except sqlite3.Error as error:
        if str(error).startswith("no such table"):
            return _Rows([], _INCOMPLETE)
        is_closed = getattr(error, "sqlite_errorcode", None) in _CANNOT_OPEN
        return _Rows([], f"{_CLOSED if is_closed else 'is damaged'}: {error}")
    return _Rows([], "is cut: a part of it is missing") if is_cut else _Rows(rows, None)


def _is_cut(path: Path) -> bool:
    """Return whether the file is shorter than its header requires and its write-ahead log cannot hold the rest."""
    with path.open("rb") as file:
        header = file.read(32)
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    missing = int.from_bytes(header[28:32], "big") * page_bytes - path.stat().st_size
    return missing > _size(path.with_name(f"{path.name}-wal"))


def _read_owner(folder: Path, namespace: str) -> StoreOwner | None:
    """Return the owner that a worker has recorded in a folder of outputs, None if there is none.

    Raises `ValueError` for a damaged record, and `OSError`.
    """
    try:
        return StoreOwner.model_validate_json((folder / owner_key(namespace)).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def _has_entries(*folders: Path) -> bool:
    return any(folder.is_dir() and any(folder.iterdir()) for folder in folders)


def _unreadable(error: OSError) -> str:
    return f"cannot be read ({error.strerror}): it may belong to another user"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
