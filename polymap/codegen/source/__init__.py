"""C to C: a function's loop nests in another legal order, everything else of the text untouched."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.codegen.source.choices import ORDERS as ORDERS
    from polymap.codegen.source.chooser import ChosenOrder as ChosenOrder, choose as choose
    from polymap.codegen.source.contiguous import writes_interleaved as writes_interleaved
    from polymap.codegen.source.contraction import Contraction as Contraction, Core as Core
    from polymap.codegen.source.dependences import Conflict as Conflict, conflicts_of as conflicts_of
    from polymap.codegen.source.executed import check_instances as check_instances
    from polymap.codegen.source.given import (
        in_place_loops as in_place_loops,
        strip_loops as strip_loops,
        workload_of_text as workload_of_text,
    )
    from polymap.codegen.source.loops import (
        Names as Names,
        Parallel as Parallel,
        isl_loops as isl_loops,
        loops_of as loops_of,
    )
    from polymap.codegen.source.order_tuning import TUNING as TUNING
    from polymap.codegen.source.region import (
        Constant as Constant,
        Declaration as Declaration,
        Reference as Reference,
        Region as Region,
        SourceStatement as SourceStatement,
    )
    from polymap.codegen.source.register_tiles import Update as Update
    from polymap.codegen.source.symbolic import (
        SymbolicCheckup as SymbolicCheckup,
        has_parameters as has_parameters,
        symbolic_checkup as symbolic_checkup,
    )
    from polymap.codegen.source.tile_statements import with_tiles as with_tiles
    from polymap.codegen.source.told import ToldStatement as ToldStatement, TransformReport as TransformReport
    from polymap.codegen.source.transform import transform_c as transform_c
