"""`pm.study`: questions that take many searches: dataflows, buffer sizes, resources, machines, fusion."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.checker.check import Verdict as Verdict
    from polymap.costmodel.buffer_bound import BufferCurve as BufferCurve, CurvePoint as CurvePoint
    from polymap.costmodel.closed_form.derivation import formula as formula
    from polymap.costmodel.closed_form.formulas import Formula as Formula
    from polymap.costmodel.crossovers import Crossover as Crossover, Family as Family, crossover as crossover
    from polymap.costmodel.machine_fit import (
        MachineFit as MachineFit,
        MeasuredRun as MeasuredRun,
        fit_machine as fit_machine,
    )
    from polymap.costmodel.tables.cost_arrays import CostArrays as CostArrays
    from polymap.networks.answer_files import load_result as load_result
    from polymap.networks.buffer_sweep import buffer_curve as buffer_curve
    from polymap.networks.capacity_sweep import (
        CapacityCurve as CapacityCurve,
        CapacityPoint as CapacityPoint,
        capacity as capacity,
        knee_of as knee_of,
    )
    from polymap.networks.comparison import (
        FAMILIES as FAMILIES,
        OPTIMUM as OPTIMUM,
        Comparison as Comparison,
        Member as Member,
        compare as compare,
        dataflow as dataflow,
        order as order,
    )
    from polymap.networks.exploration import (
        LayerAnswer as LayerAnswer,
        NetworkAnswer as NetworkAnswer,
        run_question as run_question,
    )
    from polymap.networks.fusion import GroupAnswer as GroupAnswer, Passing as Passing
    from polymap.networks.fusion_gain import (
        Fusion as Fusion,
        MovedElements as MovedElements,
        UnfusedPart as UnfusedPart,
        fusion as fusion,
    )
    from polymap.networks.padding_choice import (
        PaddingChoice as PaddingChoice,
        PaddingStudy as PaddingStudy,
        paddings as paddings,
    )
    from polymap.networks.parts import explore_in_parts as explore_in_parts
    from polymap.networks.resource_prices import (
        NextChange as NextChange,
        OtherAmount as OtherAmount,
        ResourcePrice as ResourcePrice,
        Sensitivity as Sensitivity,
        sensitivity as sensitivity,
    )
    from polymap.networks.stores import merge_stores as merge_stores
    from polymap.networks.sweep_run import MachineTotal as MachineTotal, SweepProgress as SweepProgress
    from polymap.networks.sweeps import SweepRow as SweepRow, SweepTable as SweepTable, sweep as sweep
    from polymap.networks.tile_map import TileStudy as TileStudy, tiles as tiles
    from polymap.networks.winner_map import Winner as Winner, WinnerStudy as WinnerStudy, winners as winners
    from polymap.schedules.fusions import ForbiddenFusion as ForbiddenFusion
