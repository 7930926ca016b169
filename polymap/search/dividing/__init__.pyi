from polymap.search.dividing.engine import Found as Found, Outcome as Outcome, solve as solve
from polymap.search.dividing.loop_order import CompletedMapping as CompletedMapping
from polymap.search.dividing.node_costs import output_plans as output_plans, zero_starts as zero_starts
from polymap.search.dividing.progress import Count as Count
