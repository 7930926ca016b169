"""Figure data, and the pictures drawn from them."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.figures.array_map import (
        array_figure as array_figure,
        array_svg as array_svg,
        steps_figure as steps_figure,
        steps_svg as steps_svg,
    )
    from polymap.report.figures.buffer_curve import (
        buffer_curve_svg as buffer_curve_svg,
        buffer_curve_text as buffer_curve_text,
        capacity_svg as capacity_svg,
    )
    from polymap.report.figures.chart import (
        BOUND as BOUND,
        FOUND as FOUND,
        WIDTH_PX as WIDTH_PX,
        KeyRow as KeyRow,
        cell_chart as cell_chart,
        cell_names as cell_names,
        grid as grid,
        new_chart as new_chart,
        stairs as stairs,
        tick_text as tick_text,
        unit_after as unit_after,
        unit_text as unit_text,
    )
    from polymap.report.figures.cloud import (
        cloud_figure as cloud_figure,
        cloud_svg as cloud_svg,
        undominated as undominated,
    )
    from polymap.report.figures.coordinates import (
        coordinates_figure as coordinates_figure,
        coordinates_svg as coordinates_svg,
    )
    from polymap.report.figures.cost_maps import tile_map_svg as tile_map_svg, winner_svg as winner_svg
    from polymap.report.figures.course import (
        course_figure as course_figure,
        course_svg as course_svg,
        fate_figure as fate_figure,
        fate_svg as fate_svg,
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
    from polymap.report.figures.order_classes import order_figure as order_figure, order_svg as order_svg
    from polymap.report.figures.programs import (
        dependence_graph as dependence_graph,
        dependence_graph_svg as dependence_graph_svg,
        schedule_figure as schedule_figure,
        schedule_svg as schedule_svg,
    )
    from polymap.report.figures.proof import (
        proof_figure as proof_figure,
        proof_svg as proof_svg,
        refuted_svg as refuted_svg,
    )
    from polymap.report.figures.residency import (
        fusion_residency as fusion_residency,
        residency_figure as residency_figure,
        residency_svg as residency_svg,
    )
    from polymap.report.figures.roofline import roofline_svg as roofline_svg
    from polymap.report.figures.sampled_costs import (
        rarity_figure as rarity_figure,
        rarity_svg as rarity_svg,
        smooth_figure as smooth_figure,
        smooth_svg as smooth_svg,
    )
    from polymap.report.figures.sensitivity import sensitivity_svg as sensitivity_svg
    from polymap.report.figures.subject import subject_of as subject_of
    from polymap.report.figures.svg import (
        GREY as GREY,
        PAPER as PAPER,
        Picture as Picture,
        circle as circle,
        draws as draws,
        fitted as fitted,
        hint as hint,
        picture_html as picture_html,
        polyline as polyline,
        rect as rect,
        text as text,
        tint as tint,
    )
    from polymap.report.figures.traffic import (
        fusion_svg as fusion_svg,
        traffic_figure as traffic_figure,
        traffic_html as traffic_html,
        traffic_svg as traffic_svg,
        traffic_text as traffic_text,
    )
    from polymap.report.figures.two_mappings import (
        side_by_side as side_by_side,
        side_by_side_svg as side_by_side_svg,
        side_by_side_text as side_by_side_text,
    )
