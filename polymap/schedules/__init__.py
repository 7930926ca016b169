"""Mappings and schedules: their checks and their legality; how many there are, and draws of them."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.schedules.chains import divisors_up_to as divisors_up_to
    from polymap.schedules.check import (
        check_machine as check_machine,
        check_mapping as check_mapping,
        idle_fanouts as idle_fanouts,
        mapping_warnings as mapping_warnings,
        placement_violations as placement_violations,
    )
    from polymap.schedules.fusions import ForbiddenFusion as ForbiddenFusion, forbidden_fusions as forbidden_fusions
    from polymap.schedules.legality import (
        dependence_violations as dependence_violations,
        instance_text as instance_text,
        point as point,
        schedule_violations as schedule_violations,
    )
    from polymap.schedules.legality_report import (
        Checkup as Checkup,
        check_readable as check_readable,
        checkup as checkup,
    )
    from polymap.schedules.loop_view import (
        ComputeInTree as ComputeInTree,
        LoopInTree as LoopInTree,
        LoopView as LoopView,
        StorageInTree as StorageInTree,
        trip_count as trip_count,
        view_of as view_of,
    )
    from polymap.schedules.matrices import (
        ScatteringMatrix as ScatteringMatrix,
        scattering_matrices as scattering_matrices,
    )
    from polymap.schedules.membership import outside_the_space as outside_the_space
    from polymap.schedules.nests import (
        Band as Band,
        Nests as Nests,
        TextLoop as TextLoop,
        chains_in as chains_in,
        loops_in as loops_in,
        permutable_runs as permutable_runs,
        text_loops as text_loops,
    )
    from polymap.schedules.placement import (
        groups_of as groups_of,
        has_few_orders as has_few_orders,
        kinds_of as kinds_of,
        orders_that_count as orders_that_count,
    )
    from polymap.schedules.relation import original_schedule as original_schedule, serial as serial
    from polymap.schedules.scattering import (
        Fold as Fold,
        Loop as Loop,
        LoopKind as LoopKind,
        Schedule as Schedule,
        TimeDim as TimeDim,
    )
    from polymap.schedules.signs import any_order_is_legal as any_order_is_legal, sign_vectors as sign_vectors
    from polymap.schedules.size import (
        SpaceSize as SpaceSize,
        TileRule as TileRule,
        few_legal as few_legal,
        space_size as space_size,
    )
    from polymap.schedules.uniform import uniform_trees as uniform_trees
