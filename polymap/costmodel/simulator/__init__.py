"""The referee: every step of a mapping walked, every element moved one by one."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.simulator.tree import (
        HoldingNode as HoldingNode,
        Leaf as Leaf,
        Tree as Tree,
        resolve as resolve,
    )
    from polymap.costmodel.simulator.walk import count_by_simulation as count_by_simulation
