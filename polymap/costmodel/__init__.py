"""The cost of a mapping, and what a count says beside its numbers: bounds, dataflows, footprints, rooflines, bursts,
and the latency of machines that say what single steps take (`step_*`)."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.assembly import (
        assemble as assemble,
        energies_of as energies_of,
        wire_pj as wire_pj,
        wire_prices as wire_prices,
    )
    from polymap.costmodel.bounds import (
        OPERATIONS_PER_INSTANCE as OPERATIONS_PER_INSTANCE,
        Compulsory as Compulsory,
        LevelRoof as LevelRoof,
        Roofline as Roofline,
        compulsory_bits as compulsory_bits,
        compulsory_traffic as compulsory_traffic,
        roofline as roofline,
    )
    from polymap.costmodel.buffer_bound import (
        BufferCurve as BufferCurve,
        CurvePoint as CurvePoint,
        integer_root as integer_root,
        least_traffic_bits as least_traffic_bits,
        memory_bits as memory_bits,
    )
    from polymap.costmodel.coherence import stale_copies as stale_copies
    from polymap.costmodel.cost import Cost as Cost, StepClass as StepClass
    from polymap.costmodel.counts import Counts as Counts, LevelUse as LevelUse, Traffic as Traffic, WireUse as WireUse
    from polymap.costmodel.dataflows import (
        Dataflow as Dataflow,
        dataflow as dataflow,
        reuse_counts as reuse_counts,
        window_dims as window_dims,
    )
    from polymap.costmodel.evaluation import (
        cost_of_counts as cost_of_counts,
        evaluate as evaluate,
        evaluate_in_cpu_time as evaluate_in_cpu_time,
        simulate as simulate,
    )
    from polymap.costmodel.footprint import (
        bits_at_once as bits_at_once,
        elements_summed_first as elements_summed_first,
        footprints as footprints,
    )
    from polymap.costmodel.layout import Layout as Layout, candidates as candidates
    from polymap.costmodel.nest import (
        HeldTensor as HeldTensor,
        NestFigure as NestFigure,
        NestRow as NestRow,
        RowKind as RowKind,
        bare_figure as bare_figure,
        bare_text as bare_text,
        label as label,
        mapping_text as mapping_text,
        nest_figure as nest_figure,
    )
    from polymap.costmodel.pieces import (
        BurstCounts as BurstCounts,
        LaidTensor as LaidTensor,
        bursts_of as bursts_of,
        bursts_of_layouts as bursts_of_layouts,
        check_pieces as check_pieces,
        least_laid as least_laid,
        pieces_of as pieces_of,
    )
    from polymap.costmodel.step_bounds import bounding_machine as bounding_machine
    from polymap.costmodel.step_counts import not_in_steps as not_in_steps, unsupported_in_steps as unsupported_in_steps
    from polymap.costmodel.tuning import TUNING as TUNING
