"""Where things lie in the repository."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository itself."""
DOCS = ROOT / "docs"
TEST_ACTORS = ROOT / "tests" / "support" / "actors"
"""Actors of the tests' own."""
