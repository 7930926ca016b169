from polymap.report.space.families import comparison_text as comparison_text
from polymap.report.space.side_by_side import (
    SideBySide as SideBySide,
    side_by_side_svg as side_by_side_svg,
    side_by_side_text as side_by_side_text,
)
