"""Transformations of schedules, loop trees and programs, each documented as before -> after and checked."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.ir.violation import InstancePoint as InstancePoint
    from polymap.schedules.scattering import LoopKind as LoopKind
    from polymap.transform.generator import isl_order as isl_order, isl_schedule as isl_schedule
    from polymap.transform.joined import (
        interchange as interchange,
        parallelize as parallelize,
        serialize as serialize,
        split as split,
    )
    from polymap.transform.legality import violations as violations
    from polymap.transform.marks import unroll as unroll, unroll_and_jam as unroll_and_jam, vectorize as vectorize
    from polymap.transform.order import (
        distribute as distribute,
        fuse as fuse,
        reverse as reverse,
        shift as shift,
        skew as skew,
        tile as tile,
    )
    from polymap.transform.statements import inline as inline, split_index_set as split_index_set
    from polymap.transform.storage import contract as contract, expand as expand
    from polymap.transform.text import matrices as matrices, schedule_from_text as schedule_from_text
    from polymap.transform.trees import bypass as bypass, move_storage as move_storage, places as places, stage as stage
    from polymap.workload.dependence_analysis import Dependence as Dependence
