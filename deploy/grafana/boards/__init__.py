"""The dashboards, in the order in which an operator uses them."""

from outlast.deploy.grafana.boards.calls import ACTOR_RUNS, OVERVIEW, TOOLS
from outlast.deploy.grafana.boards.servers import STORES, TEMPORAL_SERVER, WORKERS
from outlast.deploy.grafana.boards.work import BULK, TURNS

BOARDS = (OVERVIEW, TOOLS, ACTOR_RUNS, BULK, TURNS, WORKERS, STORES, TEMPORAL_SERVER)
