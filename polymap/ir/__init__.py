"""The words of the house, as frozen data: loop nests, machines, mappings, violations; and every exception."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.ir.brief import Brief as Brief
    from polymap.ir.connections import components as components
    from polymap.ir.construction import (
        UNIT_RULE as UNIT_RULE,
        Rule as Rule,
        as_fraction as as_fraction,
        as_integer as as_integer,
        bits_of_amount as bits_of_amount,
        has_unit as has_unit,
        rules_of as rules_of,
    )
    from polymap.ir.display import (
        Shown as Shown,
        html_of as html_of,
        show_as_html as show_as_html,
        show_as_picture as show_as_picture,
        show_as_text as show_as_text,
        summary_of as summary_of,
    )
    from polymap.ir.errors import (
        ArchError as ArchError,
        BudgetError as BudgetError,
        CompilerError as CompilerError,
        InputError as InputError,
        MappingError as MappingError,
        MissingPackageError as MissingPackageError,
        Mistake as Mistake,
        OptionError as OptionError,
        OutputError as OutputError,
        PolymapError as PolymapError,
        ScheduleError as ScheduleError,
        SolverError as SolverError,
        WorkloadError as WorkloadError,
        all_read as all_read,
        closest as closest,
        did_you_mean as did_you_mean,
    )
    from polymap.ir.loopnest import (
        ROLE_WORDS as ROLE_WORDS,
        Access as Access,
        Apply as Apply,
        BareInput as BareInput,
        Convert as Convert,
        Dim as Dim,
        Expression as Expression,
        Index as Index,
        Number as Number,
        Operator as Operator,
        Original as Original,
        PlaceRule as PlaceRule,
        Read as Read,
        Role as Role,
        Statement as Statement,
        Tensor as Tensor,
        Workload as Workload,
        accesses_of as accesses_of,
        evaluated_reads as evaluated_reads,
        is_box as is_box,
        is_plain as is_plain,
        rule_of as rule_of,
        starting_operator as starting_operator,
        subexpressions as subexpressions,
        with_parts as with_parts,
        written_tensors as written_tensors,
    )
    from polymap.ir.machine import (
        Architecture as Architecture,
        ComputeUnit as ComputeUnit,
        Fanout as Fanout,
        FanoutKind as FanoutKind,
        Grain as Grain,
        Hops as Hops,
        MemoryLevel as MemoryLevel,
        Multicast as Multicast,
        Node as Node,
        kind_of_name as kind_of_name,
    )
    from polymap.ir.mapping import (
        Branch as Branch,
        Compute as Compute,
        Mapping as Mapping,
        MappingNode as MappingNode,
        Spatial as Spatial,
        Storage as Storage,
        Temporal as Temporal,
        changed_nodes as changed_nodes,
        statements_below as statements_below,
    )
    from polymap.ir.parts import nest_of as nest_of, part_of as part_of, sets_each_once as sets_each_once
    from polymap.ir.quasi_affine import (
        Affine as Affine,
        Floor as Floor,
        affine as affine,
        block_of as block_of,
        bounds as bounds,
        dim as dim,
        quotient as quotient,
    )
    from polymap.ir.reported import (
        MaybeNone as MaybeNone,
        Paged as Paged,
        Reported as Reported,
        Reports as Reports,
        Tabled as Tabled,
        page_of as page_of,
        prices_text as prices_text,
        report_with as report_with,
    )
    from polymap.ir.substitution import substituted as substituted, with_indices as with_indices
    from polymap.ir.violation import InstancePoint as InstancePoint, Violation as Violation
