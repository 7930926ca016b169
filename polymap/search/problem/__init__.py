"""The question of a search: an accumulation over a box, the machine, the rules, structures, lattices, objectives."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.problem.claims import is_confirmed as is_confirmed
    from polymap.search.problem.components import Component as Component, wire_energies as wire_energies
    from polymap.search.problem.float_bounds import (
        has_estimate as has_estimate,
        lower_values as lower_values,
        lowered_sum as lowered_sum,
        may_win as may_win,
        surely_below as surely_below,
    )
    from polymap.search.problem.floors import floor_of as floor_of
    from polymap.search.problem.goals import (
        dependence as dependence,
        in_sums as in_sums,
        parse_objective as parse_objective,
        parse_single as parse_single,
    )
    from polymap.search.problem.held_alike import (
        Chains as Chains,
        joint_values as joint_values,
        sees_all_at_once as sees_all_at_once,
    )
    from polymap.search.problem.holding import (
        HolderEdge as HolderEdge,
        HolderGraph as HolderGraph,
        NodeWeights as NodeWeights,
        PricedChains as PricedChains,
        holder_graph as holder_graph,
        level_graph as level_graph,
        node_weights as node_weights,
        unfold_graph as unfold_graph,
        zero_start as zero_start,
    )
    from polymap.search.problem.lattice import (
        IntArray as IntArray,
        Lattice as Lattice,
        divisors as divisors,
        lattice_below as lattice_below,
        minimum_above as minimum_above,
        minimum_below as minimum_below,
        prime_factors as prime_factors,
        restrict_table as restrict_table,
        rounded_up as rounded_up,
    )
    from polymap.search.problem.loop_orders import (
        inside_of as inside_of,
        may_stand as may_stand,
        order_dims as order_dims,
        standing_tiles as standing_tiles,
    )
    from polymap.search.problem.magnitudes import (
        most_costed as most_costed,
        most_counted as most_counted,
        most_instances as most_instances,
    )
    from polymap.search.problem.measure import (
        Measure as Measure,
        check_laid as check_laid,
        measure_of as measure_of,
        objective_value as objective_value,
        objective_values as objective_values,
        part_values as part_values,
    )
    from polymap.search.problem.objectives import (
        PIECES as PIECES,
        SINGLE_FORMS as SINGLE_FORMS,
        Goal as Goal,
        Objective as Objective,
        Powers as Powers,
        objective_unit as objective_unit,
        unit_of as unit_of,
    )
    from polymap.search.problem.problem import (
        FanoutClass as FanoutClass,
        IndexGroup as IndexGroup,
        Problem as Problem,
        TensorTerm as TensorTerm,
        analyse as analyse,
    )
    from polymap.search.problem.read_rules import (
        DATAFLOWS as DATAFLOWS,
        dataflow_obstacle as dataflow_obstacle,
        rules_from_document as rules_from_document,
    )
    from polymap.search.problem.rule_checks import (
        distance_from_rules as distance_from_rules,
        measure_under as measure_under,
        refusals as refusals,
    )
    from polymap.search.problem.rules import (
        AtLeast as AtLeast,
        AtMost as AtMost,
        Factor as Factor,
        Held as Held,
        Innermost as Innermost,
        Intrinsic as Intrinsic,
        Outermost as Outermost,
        Outside as Outside,
        Rule as Rule,
        Rules as Rules,
        Span as Span,
        StructureRule as StructureRule,
        Utilization as Utilization,
        beyond_sums as beyond_sums,
        figure as figure,
        is_about_loops as is_about_loops,
        is_about_the_whole as is_about_the_whole,
        least_parallel as least_parallel,
        narrow_machine as narrow_machine,
        rule_text as rule_text,
        rules_of_nest as rules_of_nest,
    )
    from polymap.search.problem.scores import bounding_question as bounding_question, exact_score as exact_score
    from polymap.search.problem.spreading import least_steps as least_steps, quotients as quotients
    from polymap.search.problem.structure_model import (
        Clash as Clash,
        decide as decide,
        list_structures as list_structures,
        most_parallel as most_parallel,
    )
    from polymap.search.problem.structures import (
        Structure as Structure,
        Structures as Structures,
        enumerate_structures as enumerate_structures,
    )
    from polymap.search.problem.symmetry import distinct_structures as distinct_structures
    from polymap.search.problem.word_clashes import clashes as clashes
