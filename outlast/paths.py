"""Where Outlast keeps its state and finds its documentation: for an installed package, and for a checkout."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import platformdirs

_PRIVATE = 0o077

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The repository that this code runs from (an editable installation), None for an installed package."""
    parent = _PACKAGE.parent
    return parent if (parent / "pyproject.toml").is_file() and (parent / "worker").is_dir() else None


def default_data_dir() -> Path:
    """The folder for state when neither `--data-dir` nor `OUTLAST_DATA_DIR` names one.

    Per user (on Linux `~/.local/share/outlast`, or below `XDG_DATA_HOME`), so that commands in any folder find the same
    stack. In a checkout its `.outlast`, so that development leaves the user's own state alone. Nothing is created here.
    """
    repository = checkout()
    return repository / ".outlast" if repository else platformdirs.user_data_path("outlast", appauthor=False)


def store_folder(store_url: str | None, data_dir: Path) -> Path | None:
    """The folder of the output store that `OUTLAST_STORE_URL` names; None for a store that is not on this machine."""
    if not store_url:
        return data_dir / "outputs"
    if "://" in store_url and not store_url.startswith("file://"):
        return None
    path = unquote(urlsplit(store_url).path) if store_url.startswith("file://") else store_url
    return Path(path).expanduser().absolute()


def keep_files_private() -> None:
    """Let only their owner read what this process creates from now on, wherever the settings put it."""
    os.umask(_PRIVATE)


def docs_dir() -> Path:
    """The folder with the documentation's Markdown pages, which the sandbox serves as a site."""
    return (checkout() or _PACKAGE) / "docs"


def is_tools_folder(name: str) -> bool:
    """Return whether a name in `--tools-from` is the path of a folder, and not the name of a package."""
    path = Path(name)
    return path.is_dir() and ("/" in name or not (path / "__init__.py").is_file())
