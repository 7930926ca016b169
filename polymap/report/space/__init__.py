"""Figures of the mapping space: data first, then one picture of each."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.space.capacity import capacity_svg as capacity_svg
    from polymap.report.space.cloud import (
        cloud_figure as cloud_figure,
        cloud_places as cloud_places,
        cloud_svg as cloud_svg,
    )
    from polymap.report.space.coordinates import (
        coordinates_figure as coordinates_figure,
        coordinates_svg as coordinates_svg,
    )
    from polymap.report.space.course import (
        course_figure as course_figure,
        course_svg as course_svg,
        fate_figure as fate_figure,
        fate_svg as fate_svg,
    )
    from polymap.report.space.fusion import fusion_svg as fusion_svg
    from polymap.report.space.order_classes import order_figure as order_figure, order_svg as order_svg
    from polymap.report.space.proof import (
        proof_figure as proof_figure,
        proof_svg as proof_svg,
        refuted_svg as refuted_svg,
    )
    from polymap.report.space.rarity import rarity_figure as rarity_figure, rarity_svg as rarity_svg
    from polymap.report.space.sensitivity import sensitivity_svg as sensitivity_svg
    from polymap.report.space.smoothness import smooth_figure as smooth_figure, smooth_svg as smooth_svg
    from polymap.report.space.tile_map import tile_map_svg as tile_map_svg
    from polymap.report.space.two_mappings import (
        side_by_side as side_by_side,
        side_by_side_svg as side_by_side_svg,
        side_by_side_text as side_by_side_text,
    )
    from polymap.report.space.winners import winner_svg as winner_svg
