"""Figures of the mapping space: data first, then one picture of each."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.report.space.cloud import (
        cloud_figure as cloud_figure,
        cloud_places as cloud_places,
        cloud_svg as cloud_svg,
    )
    from polymap.report.space.course import (
        course_figure as course_figure,
        course_svg as course_svg,
        fate_figure as fate_figure,
        fate_svg as fate_svg,
    )
    from polymap.report.space.two_mappings import (
        SideBySide as SideBySide,
        side_by_side as side_by_side,
        side_by_side_svg as side_by_side_svg,
        side_by_side_text as side_by_side_text,
    )
