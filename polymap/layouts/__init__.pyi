from polymap.layouts.bursts import BurstCounts as BurstCounts
from polymap.layouts.choice import LayoutChoice as LayoutChoice
from polymap.layouts.misses import CacheMisses as CacheMisses
from polymap.layouts.texts import (
    bursts_text as bursts_text,
    choice_text as choice_text,
    misses_text as misses_text,
)
