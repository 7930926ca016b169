"""`pm.layouts`: how tensors lie in the outermost level: what reading them costs in bursts, and the best layouts of a
network."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.layout import Layout as Layout
    from polymap.costmodel.pieces import (
        BurstCounts as BurstCounts,
        TensorBursts as TensorBursts,
        burst_counts as burst_counts,
    )
    from polymap.costmodel.referees.banks import (
        BankLayouts as BankLayouts,
        BankWitness as BankWitness,
        TensorConflicts as TensorConflicts,
        bank_conflicts as bank_conflicts,
        bank_layouts as bank_layouts,
    )
    from polymap.costmodel.referees.misses import (
        CacheMisses as CacheMisses,
        TensorMisses as TensorMisses,
        cache_misses as cache_misses,
    )
    from polymap.networks.layout_choice import LayoutChoice as LayoutChoice, choose_layouts as choose_layouts
