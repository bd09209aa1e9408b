"""All Actors of the sandbox: the shipped ones and those that an operator added."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from outlast.deploy.local.sandbox.accounts.users import User
from outlast.deploy.local.sandbox.actors.actor_folder import Actor, BrokenActorError, read_actor_folder
from outlast.deploy.local.sandbox.http.errors import ApiError

logger = logging.getLogger(__name__)


class Catalogue:
    """Actors by id and by `username~name`."""

    def __init__(self, actors: Iterable[Actor]) -> None:
        self._by_id = {actor.id: actor for actor in actors}
        self._by_name = {actor.full_name.casefold(): actor for actor in self._by_id.values()}

    def all(self) -> list[Actor]:
        """Every Actor, by name."""
        return sorted(self._by_id.values(), key=lambda actor: actor.full_name)

    def by_id(self, actor_id: str) -> Actor | None:
        """The Actor with this ID; None when its folder has been removed since the run started."""
        return self._by_id.get(actor_id)

    def by_build(self, build_id: str) -> Actor | None:
        """The Actor that a build belongs to."""
        return next((actor for actor in self._by_id.values() if actor.build_id == build_id), None)

    def find(self, reference: str, user: User | None) -> Actor:
        """An Actor by ID, `username~name` or `username/name`. Raises `ApiError` 404, also for an invisible one."""
        actor = self._by_id.get(reference) or self._by_name.get(reference.replace("~", "/", 1).casefold())
        return self._seen(actor, reference, user)

    def find_host(self, label: str, user: User | None) -> Actor:
        """As `find`, for what names an Actor in a host: an ID is found in any case, since hosts have none."""
        by_host = {actor_id.lower(): actor for actor_id, actor in self._by_id.items()}
        actor = by_host.get(label.lower())
        return self._seen(actor, label, user) if actor is not None else self.find(label, user)

    @staticmethod
    def _seen(actor: Actor | None, reference: str, user: User | None) -> Actor:
        if actor is None or not is_visible(actor, user):
            raise ApiError(404, "record-not-found", f"Actor '{reference}' was not found")
        return actor


def is_visible(actor: Actor, user: User | None) -> bool:
    """Whether the user may see the Actor: it is public, or it is the user's own."""
    return actor.is_public or (user is not None and user.username == actor.username)


def load_catalogue(directories: Iterable[Path]) -> Catalogue:
    """Reads all folders. A folder that cannot be read is skipped with a warning that says what to repair."""
    actors: dict[str, Actor] = {}
    for folder in _actor_folders(directories):
        try:
            actor = read_actor_folder(folder)
        except (BrokenActorError, ValueError, TypeError, AttributeError) as error:
            logger.warning("skipped an Actor folder: %s", error)
            continue
        if actor.id in actors:
            logger.warning(
                "Actor %s is loaded from %s, which replaces %s", actor.full_name, folder, actors[actor.id].folder
            )
        actors[actor.id] = actor
    return Catalogue(actors.values())


def broken_folders(directories: Iterable[Path]) -> tuple[str, ...]:
    """Problems of these folders, one line each: a folder without an Actor, or an Actor that cannot be read."""
    problems: list[str] = []
    for directory in directories:
        folders = list(_actor_folders([directory]))
        if not folders:
            problems.append(f"{directory}: there is no Actor (.actor/actor.json) here or in a folder below")
        for folder in folders:
            try:
                read_actor_folder(folder)
            except (BrokenActorError, ValueError, TypeError, AttributeError) as error:
                problems.append(str(error))
    return tuple(problems)


def _actor_folders(directories: Iterable[Path]) -> Iterable[Path]:
    for directory in directories:
        if (directory / ".actor").is_dir():
            yield directory
        elif directory.is_dir():
            yield from (path for path in sorted(directory.iterdir()) if (path / ".actor").is_dir())
        else:
            logger.warning("no Actor folder at %s", directory)
