"""Questions that take many searches: networks, sweeps over machines, studies of one nest or program."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.networks.capacity_sweep import CapacityCurve as CapacityCurve, CapacityPoint as CapacityPoint
    from polymap.networks.columns import Provenance as Provenance
    from polymap.networks.comparison import FAMILIES as FAMILIES, Comparison as Comparison, compare as compare
    from polymap.networks.coverage import missing_text as missing_text
    from polymap.networks.documents import (
        answer_document as answer_document,
        answer_rows as answer_rows,
        share_of as share_of,
        sweep_document as sweep_document,
        sweep_rows as sweep_rows,
    )
    from polymap.networks.exploration import (
        LayerAnswer as LayerAnswer,
        NetworkAnswer as NetworkAnswer,
        explore_network as explore_network,
    )
    from polymap.networks.fusion_gain import Fusion as Fusion
    from polymap.networks.layout_choice import LayoutChoice as LayoutChoice
    from polymap.networks.model import (
        Feed as Feed,
        MappedNode as MappedNode,
        Network as Network,
        Part as Part,
        Unmapped as Unmapped,
        View as View,
        builtin_network as builtin_network,
        network_of_nodes as network_of_nodes,
    )
    from polymap.networks.resource_prices import (
        NextChange as NextChange,
        OtherAmount as OtherAmount,
        ResourcePrice as ResourcePrice,
        Sensitivity as Sensitivity,
        sensitivity as sensitivity,
    )
    from polymap.networks.stores import State as State, merge_stores as merge_stores, states_of as states_of
    from polymap.networks.sweep_run import MachineTotal as MachineTotal, SweepProgress as SweepProgress
    from polymap.networks.sweeps import (
        SweepRow as SweepRow,
        SweepTable as SweepTable,
        sweep_of_document as sweep_of_document,
    )
    from polymap.networks.tile_map import TileStudy as TileStudy
    from polymap.networks.winner_map import Winner as Winner, WinnerStudy as WinnerStudy
