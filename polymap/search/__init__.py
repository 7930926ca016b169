"""A search from question to answer: evidence, provers, the driver; results and their documents, certificates."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.answer import best_so_far as best_so_far, number_of as number_of
    from polymap.search.certificate import asked_head as asked_head, check_certifiable as check_certifiable
    from polymap.search.chains import begin_first_chains as begin_first_chains, go_on_with_chains as go_on_with_chains
    from polymap.search.documents import (
        cost_document as cost_document,
        evaluation_document as evaluation_document,
        fields_document as fields_document,
        head_document as head_document,
        json_text as json_text,
        mapping_document as mapping_document,
        number as number,
        open_document as open_document,
        open_from_document as open_from_document,
        result_document as result_document,
        units_document as units_document,
        violation_document as violation_document,
    )
    from polymap.search.driver import (
        Kind as Kind,
        Line as Line,
        Table as Table,
        Turns as Turns,
        first as first,
        further as further,
        of_rest as of_rest,
        open_structures_of as open_structures_of,
    )
    from polymap.search.in_order import (
        asked_in_order as asked_in_order,
        is_covered as is_covered,
        rank_mappings as rank_mappings,
    )
    from polymap.search.nest_after_nest import (
        begin_nest_after_nest as begin_nest_after_nest,
        begin_without_steps as begin_without_steps,
    )
    from polymap.search.options import TUNING as TUNING, Hints as Hints, Options as Options
    from polymap.search.parts import (
        search_front as search_front,
        search_order as search_order,
        search_parts_by_tree as search_parts_by_tree,
    )
    from polymap.search.program_provers import (
        begin_dividing_trees as begin_dividing_trees,
        begin_near_relatives as begin_near_relatives,
        begin_product_chains as begin_product_chains,
        bound_times as bound_times,
        improve_trees as improve_trees,
        most_refunded_bits as most_refunded_bits,
        prove_chains as prove_chains,
        sample_programs as sample_programs,
        solve_product_sizes as solve_product_sizes,
    )
    from polymap.search.provers import (
        begin_as_written as begin_as_written,
        begin_large_products as begin_large_products,
        begin_padded_nests as begin_padded_nests,
        begin_rounded_nests as begin_rounded_nests,
        begin_timed_nests as begin_timed_nests,
        bound_cells as bound_cells,
        bound_products as bound_products,
        bound_structures as bound_structures,
        climb_near_mappings as climb_near_mappings,
        climb_timed_nests as climb_timed_nests,
        enumerate_few_trees as enumerate_few_trees,
        read_question as read_question,
        refine_structures as refine_structures,
        refuse_clashing_words as refuse_clashing_words,
        refute_rules as refute_rules,
        search_dividing_tiles as search_dividing_tiles,
        try_what_rules_limit as try_what_rules_limit,
        walk_timed_trees as walk_timed_trees,
    )
    from polymap.search.reading import (
        mapping_with_cost as mapping_with_cost,
        parsed_number as parsed_number,
        plain_numbers as plain_numbers,
        result_from_document as result_from_document,
    )
    from polymap.search.refunds import bound_by_cases as bound_by_cases
    from polymap.search.result import (
        Progress as Progress,
        SearchResult as SearchResult,
        Settings as Settings,
        among as among,
        caveat as caveat,
        weakest as weakest,
    )
