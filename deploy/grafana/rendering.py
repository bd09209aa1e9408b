"""Conversion of a board to Grafana's JSON by the Grafana Foundation SDK."""

from string import ascii_uppercase

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as enums
from grafana_foundation_sdk.models import dashboard as models

from outlast.deploy.grafana.board import Board, Kind, Limits, Panel, Variable

TAG = "outlast"
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${source}")
_HEIGHT = 8
_NUMBER_HEIGHT = 4
_NAMESPACE = Variable("namespace", "Namespace", 'temporal_num_pollers{task_queue="outlast-tools"}', "namespace")


def as_json(board: Board) -> str:
    """Return the dashboard as the text of a file that Grafana can be provisioned with."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags([TAG])
        .editable()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .link(
            dashboard.DashboardLink("Outlast")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .keep_time(True)
            .include_vars(True)
        )
        .with_variable(dashboard.DatasourceVariable("source").label("Prometheus").type("prometheus"))
    )
    for variable in (_NAMESPACE, *board.variables):
        built = built.with_variable(_variable(variable, many=variable is not _NAMESPACE))
    built = built.with_variable(_address("temporal_ui", "Temporal UI", "http://127.0.0.1:8233"))
    built = built.with_variable(_address("docs", "Documentation", "http://127.0.0.1:8401/site"))
    for row in board.rows:
        built = built.with_row(dashboard.Row(row.title))
        for panel in row.panels:
            built = built.with_panel(_panel(panel))
    return JSONEncoder(sort_keys=True, indent=2).encode(built.build()) + "\n"


def _variable(variable: Variable, *, many: bool) -> dashboard.QueryVariable:
    built = (
        dashboard.QueryVariable(variable.name)
        .label(variable.title)
        .datasource(_SOURCE)
        .query(f"label_values({variable.metric}, {variable.label})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    if not many:
        return built
    return (
        built.multi(True).include_all(True).all_value(".*").current(models.VariableOption(text="All", value="$__all"))
    )


def _address(name: str, title: str, value: str) -> dashboard.TextBoxVariable:
    """Make a variable with the address of links, which is set once and not shown."""
    return (
        dashboard.TextBoxVariable(name)
        .label(title)
        .default_value(value)
        .current(models.VariableOption(text=value, value=value))
        .hide(models.VariableHide.HIDE_VARIABLE)
    )


def _panel(panel: Panel) -> stat.Panel | timeseries.Panel:
    built = _number() if panel.kind is Kind.NUMBER else _graph(is_stacked=panel.kind is Kind.STACKED)
    built = (
        built.title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .links(_links(panel))
        .span(panel.width)
        .thresholds(_thresholds(panel.limits))
    )
    for ref_id, query in zip(ascii_uppercase, panel.queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(ref_id)
        built = built.with_target(target)
    return built


def _number() -> stat.Panel:
    panel = stat.Panel().height(_NUMBER_HEIGHT)
    return panel.color_mode(enums.BigValueColorMode.VALUE).graph_mode(enums.BigValueGraphMode.AREA)


def _graph(*, is_stacked: bool) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(enums.LegendDisplayMode.LIST)
    tooltip = common.VizTooltipOptions().mode(enums.TooltipDisplayMode.MULTI).sort(enums.SortOrder.DESCENDING)
    panel = (
        timeseries.Panel()
        .height(_HEIGHT)
        .min(0)
        .fill_opacity(30 if is_stacked else 8)
        .legend(legend.placement(enums.LegendPlacement.BOTTOM).show_legend(True))
        .tooltip(tooltip)
    )
    return panel.stacking(common.StackingConfig().mode(enums.StackingMode.NORMAL)) if is_stacked else panel


def _links(panel: Panel) -> list[Builder[models.DashboardLink]]:
    return [
        dashboard.DashboardLink(link.title).type(models.DashboardLinkType.LINK).url(link.url).target_blank(True)
        for link in panel.links
    ]


def _thresholds(limits: Limits) -> dashboard.ThresholdsConfig:
    """Make thresholds: green, yellow from `warn`, red from `bad`; or red, yellow from `bad`, green from `warn`."""
    colours = ("red", "yellow", "green") if limits.fewer_is_bad else ("green", "yellow", "red")
    values = (limits.bad, limits.warn) if limits.fewer_is_bad else (limits.warn, limits.bad)
    steps = [models.Threshold(value=None, color=colours[0])]
    steps += [
        models.Threshold(value=limit, color=colour)
        for limit, colour in zip(values, colours[1:], strict=True)
        if limit is not None
    ]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
