from polymap.search.dividing.accounted import Count as Count
from polymap.search.dividing.engine import Found as Found, Outcome as Outcome, solve as solve
from polymap.search.dividing.loop_order import Leaf as Leaf
from polymap.search.dividing.node_costs import output_plans as output_plans, zero_starts as zero_starts
