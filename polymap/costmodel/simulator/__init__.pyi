from polymap.costmodel.simulator.tree import Leaf as Leaf, Place as Place, Tree as Tree, resolve as resolve
from polymap.costmodel.simulator.walk import count_by_simulation as count_by_simulation
