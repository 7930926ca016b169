"""The question of a search: an accumulation over a box, the machine, the rules, structures and lattices."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.problem.components import (
        Component as Component,
        bandwidth_components as bandwidth_components,
        bits_component as bits_component,
        energy_component as energy_component,
        held_component as held_component,
        weighted_sum as weighted_sum,
        wire_energies as wire_energies,
    )
    from polymap.search.problem.goals import (
        SINGLE_FORMS as SINGLE_FORMS,
        Goal as Goal,
        Objective as Objective,
        Powers as Powers,
        objective_unit as objective_unit,
        parse_objective as parse_objective,
        parse_single as parse_single,
        unit_of as unit_of,
    )
    from polymap.search.problem.holding import (
        HolderEdge as HolderEdge,
        HolderGraph as HolderGraph,
        NodeWeights as NodeWeights,
        holder_graph as holder_graph,
        least_chain as least_chain,
        level_graph as level_graph,
        node_weights as node_weights,
        unfolded as unfolded,
        zero_start as zero_start,
        zero_starts as zero_starts,
    )
    from polymap.search.problem.lattice import (
        IntArray as IntArray,
        Lattice as Lattice,
        divisors as divisors,
        lattice_below as lattice_below,
        minimum_below as minimum_below,
        prime_factors as prime_factors,
        restricted as restricted,
    )
    from polymap.search.problem.loop_orders import (
        inside_of as inside_of,
        may_stand as may_stand,
        ordered as ordered,
        standing_tiles as standing_tiles,
    )
    from polymap.search.problem.magnitudes import most_costed as most_costed, most_counted as most_counted
    from polymap.search.problem.problem import (
        FanoutClass as FanoutClass,
        IndexGroup as IndexGroup,
        Problem as Problem,
        TensorTerm as TensorTerm,
        analyse as analyse,
    )
    from polymap.search.problem.read_rules import (
        dataflow_obstacle as dataflow_obstacle,
        rules_from_document as rules_from_document,
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
        StructureRule as StructureRule,
        Utilization as Utilization,
        figure as figure,
        least_parallel as least_parallel,
        narrowed as narrowed,
        rule_text as rule_text,
    )
    from polymap.search.problem.structure_model import (
        Clash as Clash,
        decide as decide,
        listed as listed,
        most_parallel as most_parallel,
    )
    from polymap.search.problem.structures import Structure as Structure, enumerate_structures as enumerate_structures
    from polymap.search.problem.symmetry import distinct_structures as distinct_structures
    from polymap.search.problem.word_clashes import bits_required as bits_required, clashes as clashes
