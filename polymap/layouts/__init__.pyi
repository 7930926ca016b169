from polymap.layouts.bursts import BurstCounts as BurstCounts
from polymap.layouts.choice import LayoutChoice as LayoutChoice
from polymap.layouts.misses import CacheMisses as CacheMisses
