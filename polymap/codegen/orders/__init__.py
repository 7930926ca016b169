"""The order that a program is printed in: contractions and steps of time in tiles, loops exchanged where that pays."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.orders.chooser import Chosen as Chosen, choose as choose
    from polymap.codegen.orders.contraction import (
        Contraction as Contraction,
        Core as Core,
        is_mixed as is_mixed,
        is_of_lanes as is_of_lanes,
        packs_of as packs_of,
    )
    from polymap.codegen.orders.tuning import TUNING as TUNING
