"""Figure data, and the pictures drawn from them."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.figures.array_map import array_figure as array_figure, array_svg as array_svg
    from polymap.report.figures.buffer_curve import (
        buffer_curve_svg as buffer_curve_svg,
        buffer_curve_text as buffer_curve_text,
    )
    from polymap.report.figures.chart import (
        BOUND as BOUND,
        FOUND as FOUND,
        WIDTH_PX as WIDTH_PX,
        Axis as Axis,
        Chart as Chart,
        Frame as Frame,
        KeyRow as KeyRow,
        bytes_text as bytes_text,
        cell_chart as cell_chart,
        cell_names as cell_names,
        grid as grid,
        head as head,
        log_word as log_word,
        new_chart as new_chart,
        round_axis as round_axis,
        size_axis as size_axis,
        stairs as stairs,
        ticks_of as ticks_of,
        unit_after as unit_after,
        unit_text as unit_text,
    )
    from polymap.report.figures.domain import domain_figure as domain_figure, domain_svg as domain_svg
    from polymap.report.figures.front import front_svg as front_svg, front_text as front_text
    from polymap.report.figures.layer_bars import (
        dataflow_matrix as dataflow_matrix,
        layer_bars_figure as layer_bars_figure,
        layer_bars_svg as layer_bars_svg,
        layer_matrix as layer_matrix,
        layer_matrix_svg as layer_matrix_svg,
    )
    from polymap.report.figures.machine import machine_svg as machine_svg, machine_text as machine_text
    from polymap.report.figures.nest_svg import bare_svg as bare_svg, mapping_svg as mapping_svg
    from polymap.report.figures.residency import residency_figure as residency_figure, residency_svg as residency_svg
    from polymap.report.figures.roofline import roofline_svg as roofline_svg, roofline_text as roofline_text
    from polymap.report.figures.schedule import schedule_figure as schedule_figure, schedule_svg as schedule_svg
    from polymap.report.figures.statements import (
        dependence_graph as dependence_graph,
        dependence_graph_svg as dependence_graph_svg,
    )
    from polymap.report.figures.subject import subject_of as subject_of
    from polymap.report.figures.svg import (
        GREY as GREY,
        INK as INK,
        PAPER as PAPER,
        RULE as RULE,
        Picture as Picture,
        circle as circle,
        fitted as fitted,
        hint as hint,
        line as line,
        mark as mark,
        picture as picture,
        polyline as polyline,
        rect as rect,
        text as text,
        text_width as text_width,
        tint as tint,
        wrapped as wrapped,
    )
    from polymap.report.figures.traffic import (
        traffic_figure as traffic_figure,
        traffic_html as traffic_html,
        traffic_svg as traffic_svg,
        traffic_text as traffic_text,
    )
