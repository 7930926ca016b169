"""Sets of integers: progressions and exact arrays of integers of any length, and isl."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.poly.budgets import (
        CONTEXT as CONTEXT,
        budget as budget,
        check_clock as check_clock,
        is_exhausted as is_exhausted,
        is_open as is_open,
        raised as raised,
    )
    from polymap.poly.counting import count as count
    from polymap.poly.deadlines import (
        Effort as Effort,
        in_a_process as in_a_process,
        within as within,
        within_work as within_work,
    )
    from polymap.poly.exact import (
        INT64 as INT64,
        PYTHON as PYTHON,
        Arithmetic as Arithmetic,
        FloatArray as FloatArray,
        Kind as Kind,
        Numbers as Numbers,
        arithmetic_for as arithmetic_for,
        count_type as count_type,
    )
    from polymap.poly.formulas import CountFormula as CountFormula, count_formula as count_formula
    from polymap.poly.loops import (
        Guard as Guard,
        Instance as Instance,
        Loop as Loop,
        Node as Node,
        is_output as is_output,
        loops_in_order as loops_in_order,
        missing_bound as missing_bound,
        relation_of as relation_of,
    )
    from polymap.poly.primes import split as split
    from polymap.poly.progression import (
        COUNT_LIMIT as COUNT_LIMIT,
        Placed as Placed,
        Shape as Shape,
        difference as difference,
        intersection as intersection,
        overlap as overlap,
        progressions as progressions,
        same as same,
        too_large as too_large,
        translated_sum as translated_sum,
        union as union,
    )
    from polymap.poly.relations import (
        Clock as Clock,
        UnionMap as UnionMap,
        at_equal_dims as at_equal_dims,
        at_same_time as at_same_time,
        constants_of as constants_of,
        ends_of as ends_of,
        example_of as example_of,
        fixed_values as fixed_values,
        flow_of_values as flow_of_values,
        formula_texts as formula_texts,
        goes_back as goes_back,
        has_parameters_from as has_parameters_from,
        largest_number as largest_number,
        may_precede as may_precede,
        not_in_order as not_in_order,
        parameters_of as parameters_of,
        points_of as points_of,
        same_prefix as same_prefix,
        signs_of as signs_of,
        simplified as simplified,
        union_of as union_of,
    )
    from polymap.poly.scheduler import computed_order as computed_order, tiled_order as tiled_order
    from polymap.poly.sets import (
        AstNode as AstNode,
        Counter as Counter,
        Frame as Frame,
        Map as Map,
        Set as Set,
        coalesced as coalesced,
        differences as differences,
        dim_bounds as dim_bounds,
        first_pair as first_pair,
        first_point as first_point,
        function as function,
        integer_set as integer_set,
        nonnegative as nonnegative,
        same_value as same_value,
        sooner as sooner,
    )
    from polymap.poly.tables import Columns as Columns, Table as Table, Tally as Tally
    from polymap.poly.tuning import TUNING as TUNING
