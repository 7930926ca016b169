from polymap.search.run.answer import best_so_far as best_so_far, covers as covers, number_of as number_of
from polymap.search.run.certificate import asked_head as asked_head, check_certifiable as check_certifiable
from polymap.search.run.options import Hints as Hints, Options as Options
from polymap.search.run.program_stages import sample_programs as sample_programs
from polymap.search.run.stages import (
    anneal_near_mappings as anneal_near_mappings,
    begin_at as begin_at,
    bound_products as bound_products,
    bound_structures as bound_structures,
    climb_to_the_end as climb_to_the_end,
    enumerate_few_trees as enumerate_few_trees,
    meet_rules as meet_rules,
    read_question as read_question,
    refine_structures as refine_structures,
    refuse_clashing_words as refuse_clashing_words,
    refute_rules as refute_rules,
    search_dividing_tiles as search_dividing_tiles,
)
from polymap.search.run.state import (
    Search as Search,
    Stages as Stages,
    counted_space as counted_space,
    open_structures_of as open_structures_of,
)
