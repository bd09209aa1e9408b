"""The dashboards, one module each, in the order in which an operator uses them."""

from outlast.deploy.grafana.boards.actor_runs import ACTOR_RUNS
from outlast.deploy.grafana.boards.bulk import BULK
from outlast.deploy.grafana.boards.overview import OVERVIEW
from outlast.deploy.grafana.boards.stores import STORES
from outlast.deploy.grafana.boards.temporal_server import TEMPORAL_SERVER
from outlast.deploy.grafana.boards.tools import TOOLS
from outlast.deploy.grafana.boards.turns import TURNS
from outlast.deploy.grafana.boards.workers import WORKERS

BOARDS = (OVERVIEW, TOOLS, ACTOR_RUNS, BULK, TURNS, WORKERS, STORES, TEMPORAL_SERVER)
