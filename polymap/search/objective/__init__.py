"""What a mapping is worth: exact values, bounds in floats, what no mapping beats, and the best so far."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.objective.claims import is_confirmed as is_confirmed
    from polymap.search.objective.float_bounds import (
        Multipliers as Multipliers,
        Tradeoff as Tradeoff,
        has_estimate as has_estimate,
        lowered_sum as lowered_sum,
        may_win as may_win,
        slope_of as slope_of,
        surely_below as surely_below,
        tradeoff_of as tradeoff_of,
        weakest_cycles as weakest_cycles,
    )
    from polymap.search.objective.floors import floor_of as floor_of
    from polymap.search.objective.measure import (
        Component as Component,
        Measure as Measure,
        measure_of as measure_of,
        objective_value as objective_value,
        objective_values as objective_values,
        part_values as part_values,
    )
    from polymap.search.objective.rule_checks import (
        distance_from_rules as distance_from_rules,
        measure_under as measure_under,
        refusals as refusals,
    )
    from polymap.search.objective.scores import exact_score as exact_score
