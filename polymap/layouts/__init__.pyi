from polymap.layouts.bursts import (
    BurstCounts as BurstCounts,
    TensorBursts as TensorBursts,
    burst_bits_of as burst_bits_of,
    burst_counts as burst_counts,
    bursts_of_layouts as bursts_of_layouts,
)
from polymap.layouts.layout import (
    Layout as Layout,
    image_layouts as image_layouts,
    layout_of as layout_of,
    row_major as row_major,
)
