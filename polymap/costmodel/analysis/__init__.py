"""What a count says beside its numbers: bounds, dataflows, footprints, rooflines, crossover points."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.analysis.bounds import (
        Compulsory as Compulsory,
        compulsory_bits as compulsory_bits,
        compulsory_traffic as compulsory_traffic,
    )
    from polymap.costmodel.analysis.buffer_bound import (
        BufferCurve as BufferCurve,
        CurvePoint as CurvePoint,
        least_traffic_bits as least_traffic_bits,
        memory_bits as memory_bits,
    )
    from polymap.costmodel.analysis.dataflows import (
        Dataflow as Dataflow,
        dataflow as dataflow,
        reuse_counts as reuse_counts,
        window_dims as window_dims,
    )
    from polymap.costmodel.analysis.footprint import (
        bits_at_once as bits_at_once,
        elements_summed_first as elements_summed_first,
        footprints as footprints,
    )
    from polymap.costmodel.analysis.nest import (
        Held as Held,
        NestFigure as NestFigure,
        NestRow as NestRow,
        RowKind as RowKind,
        bare_figure as bare_figure,
        bare_text as bare_text,
        label as label,
        mapping_text as mapping_text,
        nest_figure as nest_figure,
    )
    from polymap.costmodel.analysis.rooflines import (
        OPERATIONS_PER_INSTANCE as OPERATIONS_PER_INSTANCE,
        LevelRoof as LevelRoof,
        Roofline as Roofline,
        roofline as roofline,
    )
