"""Loop trees of programs: statements fused or distributed, bands permuted and tiled, and what bounds them."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.programs.alignments import with_loops_joined as with_loops_joined
    from polymap.search.programs.contraction import fold_tensor as fold_tensor, may_be_folded as may_be_folded
    from polymap.search.programs.instances import (
        READ as READ,
        ProgramArrays as ProgramArrays,
        instance_bound as instance_bound,
        program_arrays as program_arrays,
    )
    from polymap.search.programs.rewriting import reorder_arrays as reorder_arrays, with_values as with_values
    from polymap.search.programs.rounds import (
        best_rounds as best_rounds,
        least_bits as least_bits,
        moved_alone as moved_alone,
        touched_alone as touched_alone,
        without_room as without_room,
    )
    from polymap.search.programs.search import (
        ProgramSearch as ProgramSearch,
        ProgramTree as ProgramTree,
        may_be_climbed as may_be_climbed,
    )
    from polymap.search.programs.selection import (
        Around as Around,
        Column as Column,
        Home as Home,
        Residence as Residence,
        Selection as Selection,
        selections as selections,
    )
    from polymap.search.programs.shapes import nest_programs as nest_programs, nests_of as nests_of
    from polymap.search.programs.siblings import spread_too as spread_too
    from polymap.search.programs.tilings import (
        Tiling as Tiling,
        best_tilings as best_tilings,
        tile_plan as tile_plan,
    )
    from polymap.search.programs.traffic_bounds import (
        can_be_bounded as can_be_bounded,
        program_traffic_bits as program_traffic_bits,
    )
    from polymap.search.programs.tuning import TUNING as TUNING
    from polymap.search.programs.windows import (
        in_lines as in_lines,
        in_tiles as in_tiles,
        made_again as made_again,
        makes_rows_again as makes_rows_again,
    )
