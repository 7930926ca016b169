from polymap.costmodel.closed_form.accounting import (
    Busiest as Busiest,
    Moves as Moves,
    Row as Row,
    fills_of_target as fills_of_target,
    initial_of as initial_of,
    moves_of_operand as moves_of_operand,
    moves_of_target as moves_of_target,
    partial_sums as partial_sums,
    rows_of as rows_of,
)
from polymap.costmodel.closed_form.carries import (
    NO_PINS as NO_PINS,
    Axes as Axes,
    Chains as Chains,
    Judge as Judge,
    Pins as Pins,
    Siblings as Siblings,
    always as always,
    axes_of as axes_of,
    none_moves as none_moves,
    none_starts as none_starts,
    none_stops as none_stops,
)
from polymap.costmodel.closed_form.counts import count_closed_form as count_closed_form
from polymap.costmodel.closed_form.digits import (
    NOTHING as NOTHING,
    Chain as Chain,
    Clock as Clock,
    Cut as Cut,
    Part as Part,
    Past as Past,
    Track as Track,
    changes as changes,
    changes_with_past as changes_with_past,
    kept_indices as kept_indices,
    siblings as siblings,
)
from polymap.costmodel.closed_form.dividing_tiles import (
    DividingTiles as DividingTiles,
    Steps as Steps,
    count_dividing as count_dividing,
)
from polymap.costmodel.closed_form.groups import (
    TensorModel as TensorModel,
    Window as Window,
    WorkloadModel as WorkloadModel,
    workload_model as workload_model,
)
from polymap.costmodel.closed_form.nest import (
    TEMPORAL as TEMPORAL,
    Loop as Loop,
    MachineModel as MachineModel,
    Nest as Nest,
    Node as Node,
    machine_model as machine_model,
    nest_of as nest_of,
)
from polymap.costmodel.closed_form.window_sums import (
    Cuts as Cuts,
    Sums as Sums,
    all_elements as all_elements,
    distinct_elements as distinct_elements,
    first_tile as first_tile,
    kept_elements as kept_elements,
    sums_of_window as sums_of_window,
)
from polymap.costmodel.closed_form.window_tables import (
    AMONG as AMONG,
    Axis as Axis,
    WindowKind as WindowKind,
    window_table as window_table,
)
