from polymap.networks.exploration import (
    LayerAnswer as LayerAnswer,
    NetworkAnswer as NetworkAnswer,
    explore_network as explore_network,
)
from polymap.networks.model import (
    MappedNode as MappedNode,
    Network as Network,
    Part as Part,
    Unmapped as Unmapped,
    View as View,
    builtin_network as builtin_network,
    network_of_nodes as network_of_nodes,
)
from polymap.networks.sweeps import SweepTable as SweepTable, sweep_of_document as sweep_of_document
from polymap.networks.texts import (
    answer_document as answer_document,
    answer_rows as answer_rows,
    answer_text as answer_text,
    network_text as network_text,
    sweep_document as sweep_document,
    sweep_text as sweep_text,
)
