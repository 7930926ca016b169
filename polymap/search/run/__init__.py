"""One search from question to answer: evidence, provers, the driver; certificates, and why rules clash."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.run.answer import best_so_far as best_so_far, number_of as number_of
    from polymap.search.run.certificate import asked_head as asked_head, check_certifiable as check_certifiable
    from polymap.search.run.chains import (
        begin_chains as begin_chains,
        begin_dividing_trees as begin_dividing_trees,
    )
    from polymap.search.run.driver import (
        Kind as Kind,
        Line as Line,
        Table as Table,
        first as first,
        further as further,
        of_rest as of_rest,
        open_structures_of as open_structures_of,
    )
    from polymap.search.run.in_order import asked_in_order as asked_in_order, is_covered as is_covered, ranked as ranked
    from polymap.search.run.nest_after_nest import begin_nest_after_nest as begin_nest_after_nest
    from polymap.search.run.options import TUNING as TUNING, Hints as Hints, Options as Options
    from polymap.search.run.parts import (
        search_front as search_front,
        search_order as search_order,
        search_parts_by_tree as search_parts_by_tree,
    )
    from polymap.search.run.program_provers import (
        begin_near_relatives as begin_near_relatives,
        sample_programs as sample_programs,
    )
    from polymap.search.run.provers import (
        begin_as_written as begin_as_written,
        bound_products as bound_products,
        bound_structures as bound_structures,
        climb_near_mappings as climb_near_mappings,
        enumerate_few_trees as enumerate_few_trees,
        read_question as read_question,
        refine_structures as refine_structures,
        refuse_clashing_words as refuse_clashing_words,
        refute_rules as refute_rules,
        search_dividing_tiles as search_dividing_tiles,
        try_what_rules_limit as try_what_rules_limit,
    )
    from polymap.search.run.refunds import (
        bound_by_refunds as bound_by_refunds,
        most_refunded_bits as most_refunded_bits,
        prove_chains as prove_chains,
    )
    from polymap.search.run.timed_nests import (
        climb_timed_nests as climb_timed_nests,
        walk_timed_trees as walk_timed_trees,
    )
