"""From a board to Grafana's JSON, through the Grafana Foundation SDK."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLink,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableHide,
    VariableOption,
    VariableRefresh,
)

from outlast.deploy.grafana.board import Board, Kind, Panel, Query, Variable

TAG = "outlast"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${source}")
_HEIGHT = 8
_NUMBER_HEIGHT = 4
_NAMESPACE = Variable("namespace", "Namespace", 'temporal_num_pollers{task_queue="outlast-tools"}', "namespace")


def as_json(board: Board) -> str:
    """The dashboard as the text of a file that Grafana can be provisioned with."""
    built = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags([TAG])
        .editable()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .link(
            dashboard.DashboardLink("Outlast")
            .type(DashboardLinkType.DASHBOARDS)
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
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    if not many:
        return built
    return built.multi(True).include_all(True).all_value(".*").current(VariableOption(text="All", value="$__all"))


def _address(name: str, title: str, value: str) -> dashboard.TextBoxVariable:
    """An address that links begin with. It is set once, and so it is not shown."""
    return (
        dashboard.TextBoxVariable(name)
        .label(title)
        .default_value(value)
        .current(VariableOption(text=value, value=value))
        .hide(VariableHide.HIDE_VARIABLE)
    )


def _panel(panel: Panel) -> stat.Panel | timeseries.Panel:
    return _number(panel) if panel.kind is Kind.NUMBER else _graph(panel)


def _number(panel: Panel) -> stat.Panel:
    built = (
        stat.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .links(_links(panel))
        .span(panel.width)
        .height(_NUMBER_HEIGHT)
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.AREA)
        .thresholds(_thresholds(panel))
    )
    for target in _targets(panel.queries):
        built = built.with_target(target)
    return built


def _graph(panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    built = (
        timeseries.Panel()
        .title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .links(_links(panel))
        .span(panel.width)
        .height(_HEIGHT)
        .min(0)
        .fill_opacity(30 if panel.kind is Kind.STACKED else 8)
        .legend(legend.show_legend(True))
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        .thresholds(_thresholds(panel))
    )
    if panel.kind is Kind.STACKED:
        built = built.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for target in _targets(panel.queries):
        built = built.with_target(target)
    return built


def _targets(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(chr(ord("A") + index))
        for index, query in enumerate(queries)
    ]


def _links(panel: Panel) -> list[Builder[DashboardLink]]:
    return [
        dashboard.DashboardLink(link.title).type(DashboardLinkType.LINK).url(link.url).target_blank(True)
        for link in panel.links
    ]


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    """Green, yellow from `warn` and red from `bad`; or red, yellow from `bad` and green from `warn`."""
    colours = ("red", "yellow", "green") if panel.fewer_is_bad else ("green", "yellow", "red")
    limits = (panel.bad, panel.warn) if panel.fewer_is_bad else (panel.warn, panel.bad)
    steps = [Threshold(value=None, color=colours[0])]
    steps += [
        Threshold(value=limit, color=colour)
        for limit, colour in zip(limits, colours[1:], strict=True)
        if limit is not None
    ]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
