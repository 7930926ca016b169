from polymap.codegen.orders.chooser import Chosen as Chosen, choose as choose
from polymap.codegen.orders.contraction import (
    LANE_VECTORS as LANE_VECTORS,
    Contraction as Contraction,
    Core as Core,
    is_mixed as is_mixed,
    is_of_lanes as is_of_lanes,
    packs_of as packs_of,
)
