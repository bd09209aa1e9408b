"""Writes a file that a process watches: the process reads the old text or the new one, never half of it."""

from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Give `path` another text at once, as editors and Kubernetes do."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)
