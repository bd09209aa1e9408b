"""The output of a command as log lines, for a process whose standard error is read by a program."""

import json
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from outlast.cli.errors import CliError
from outlast.cli.show.output import Output


class LoggedOutput(Output):
    """Writes notes and errors to standard error, each as a JSON object on one line, with the keys of all log lines."""

    def __init__(self, logger: str) -> None:
        super().__init__(as_json=False)
        self._logger = logger

    def note(self, renderable: RenderableType = "") -> None:
        """Log what would be written to standard error."""
        text = Text.from_markup(renderable).plain if isinstance(renderable, str) else str(renderable)
        self._write("info", text)

    def command(self, line: str) -> None:
        """Log a command that may be typed."""
        self._write("info", line)

    def error(self, error: CliError) -> None:
        """Log what is wrong and what to do."""
        self._write("error", " ".join([error.message, *error.lines, *([error.hint] if error.hint else [])]))

    def _write(self, level: str, event: str) -> None:
        timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {"event": event, "level": level, "logger": self._logger, "timestamp": timestamp}
        self.err.file.write(json.dumps(line) + "\n")
        self.err.file.flush()
