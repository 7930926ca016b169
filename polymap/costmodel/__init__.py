"""Loop tree to cost: exact integers until the last step."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.assembly import (
        assemble as assemble,
        energies_of as energies_of,
        wire_pj as wire_pj,
        wire_prices as wire_prices,
    )
    from polymap.costmodel.coherence import stale_copies as stale_copies
    from polymap.costmodel.cost import Cost as Cost
    from polymap.costmodel.counts import Counts as Counts, LevelUse as LevelUse, Traffic as Traffic, WireUse as WireUse
    from polymap.costmodel.evaluation import (
        cost_of_counts as cost_of_counts,
        evaluate as evaluate,
        evaluate_in_cpu_time as evaluate_in_cpu_time,
        simulate as simulate,
    )
    from polymap.costmodel.layout import (
        Layout as Layout,
        candidates as candidates,
        layout_of as layout_of,
        row_major as row_major,
    )
    from polymap.costmodel.pieces import (
        ANY_LAYOUT as ANY_LAYOUT,
        Laid as Laid,
        Pieces as Pieces,
        check_pieces as check_pieces,
        laid_in as laid_in,
        layouts_told as layouts_told,
        least_laid as least_laid,
        pieces_of as pieces_of,
        unknown_tensor as unknown_tensor,
    )
    from polymap.costmodel.step_bounds import bounding_machine as bounding_machine
    from polymap.costmodel.step_counts import (
        not_in_steps as not_in_steps,
        unsupported_in_steps as unsupported_in_steps,
    )
    from polymap.costmodel.tuning import TUNING as TUNING
