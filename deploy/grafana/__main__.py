"""`make dashboards`: write `dashboards/*.json`, which Grafana is provisioned with."""

from pathlib import Path

from outlast.deploy.grafana.boards import BOARDS
from outlast.deploy.grafana.rendering import as_json

FOLDER = Path(__file__).parent / "dashboards"


def main() -> None:
    """Write every dashboard, and remove files without a board."""
    FOLDER.mkdir(exist_ok=True)
    wanted = {FOLDER / f"{board.uid}.json": board for board in BOARDS}
    for path in FOLDER.glob("*.json"):
        if path not in wanted:
            path.unlink()
    for path, board in wanted.items():
        path.write_text(as_json(board))
        print(path.name, len(board.panels), "panels")


if __name__ == "__main__":
    main()
