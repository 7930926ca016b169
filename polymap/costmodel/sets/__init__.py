"""The counts of one mapping by integer sets: exact for every nest, also where the closed form does not reach."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.sets.counts import counts_of_sets as counts_of_sets
    from polymap.costmodel.sets.flow import Flow as Flow, Ledger as Ledger, Scene as Scene
    from polymap.costmodel.sets.tree import Leaf as Leaf, read_tree as read_tree
