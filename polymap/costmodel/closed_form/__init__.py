"""Counts by formulas: as numbers, and in the tiles of the mapping's loops."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.closed_form.accounting import (
        Busiest as Busiest,
        Row as Row,
        Wire as Wire,
        bits_of_only_instance as bits_of_only_instance,
        rows_of as rows_of,
        wires_of as wires_of,
    )
    from polymap.costmodel.closed_form.branch_programs import (
        common_access as common_access,
        whole_access as whole_access,
    )
    from polymap.costmodel.closed_form.branches import (
        BranchCounter as BranchCounter,
        Length as Length,
        NestCounts as NestCounts,
        OutOfReach as OutOfReach,
    )
    from polymap.costmodel.closed_form.carries import (
        Axes as Axes,
        Cuts as Cuts,
        Loops as Loops,
        Pins as Pins,
        Siblings as Siblings,
        StepFilter as StepFilter,
        always as always,
        none_moves as none_moves,
        none_starts as none_starts,
        none_stops as none_stops,
    )
    from polymap.costmodel.closed_form.counts import (
        count_closed_form as count_closed_form,
        counts_of_tensor as counts_of_tensor,
    )
    from polymap.costmodel.closed_form.derivation import formula as formula
    from polymap.costmodel.closed_form.digits import (
        NOTHING as NOTHING,
        CarryPlace as CarryPlace,
        Chain as Chain,
        CountedSteps as CountedSteps,
        Part as Part,
        PreviousCarry as PreviousCarry,
        Track as Track,
        kept_indices as kept_indices,
        lengths_at_digit as lengths_at_digit,
        lengths_of_all_digits as lengths_of_all_digits,
        siblings as siblings,
        times_of as times_of,
    )
    from polymap.costmodel.closed_form.dividing_tiles import (
        DividingCrossings as DividingCrossings,
        Steps as Steps,
        count_dividing as count_dividing,
    )
    from polymap.costmodel.closed_form.formulas import Formula as Formula
    from polymap.costmodel.closed_form.groups import (
        DimKind as DimKind,
        TensorModel as TensorModel,
        Window as Window,
        WorkloadModel as WorkloadModel,
        workload_model as workload_model,
    )
    from polymap.costmodel.closed_form.nest import (
        TEMPORAL as TEMPORAL,
        Loop as Loop,
        LoopColumn as LoopColumn,
        LoopNestView as LoopNestView,
        MachineModel as MachineModel,
        Node as Node,
        Shape as Shape,
        loops_of_tree as loops_of_tree,
        machine_model as machine_model,
        nest_of as nest_of,
        shape_of_tree as shape_of_tree,
    )
    from polymap.costmodel.closed_form.partial_tiles import (
        PartialCounts as PartialCounts,
        accepted_steps as accepted_steps,
        elements_held_by_any as elements_held_by_any,
        elements_staying as elements_staying,
    )
    from polymap.costmodel.closed_form.window_sums import (
        ROLES as ROLES,
        Sums as Sums,
        all_elements as all_elements,
        distinct_elements as distinct_elements,
        first_tile as first_tile,
        kept_elements as kept_elements,
        role_of as role_of,
        sums_of_window as sums_of_window,
        terms_not_read as terms_not_read,
    )
    from polymap.costmodel.closed_form.window_tables import (
        AMONG as AMONG,
        Ask as Ask,
        Carry as Carry,
        WindowKind as WindowKind,
        is_spread as is_spread,
    )
