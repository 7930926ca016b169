"""ZigZag's files as machine, layers and constraints: versions 2 and 3. What is read: docs/howto/coming_from.md."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import NamedTuple

from polymap.importers.timeloop import Files, FileWarning, Findings, Record
from polymap.importers.zigzag_layers import Layer, constraints_of, layer_of, mappings_of, tell_unused
from polymap.importers.zigzag_machine import Machine, machine_of
from polymap.inputs import answers_in_words
from polymap.ir import Architecture, Workload
from polymap.networks import MappedNode, Network, network_of_nodes


class ZigzagLayer(NamedTuple):
    """A layer, and what the mapping demands of it: `explore(layer.workload, arch, constraints=layer.constraints)`."""

    name: str
    workload: Workload
    constraints: dict[str, object]


class ZigzagFiles(NamedTuple):
    """ZigZag's files, read. layers: in the file's order; network: all of them, None without a workload; warnings: what
    was read otherwise than it stands there, or left out."""

    arch: Architecture
    layers: tuple[ZigzagLayer, ...] = ()
    network: Network | None = None
    warnings: tuple[FileWarning, ...] = ()


@answers_in_words
def from_zigzag(
    accelerator: str | Path,
    mapping: str | Path | None = None,
    workload: str | Path | None = None,
    *,
    offchip: str | Path | None = None,
    strict: bool = True,
) -> ZigzagFiles:
    """Return the machine, the layers and their constraints of ZigZag's files; needs the extra `timeloop` (YAML).

    Each argument is a path, or YAML as a text of several lines. offchip: Stream's file of the core whose memories stand
    outside of the accelerator, which is one core then. Memories and the operational array become levels and
    fan-outs of one chain, spatial mappings factors of fan-outs, a temporal ordering the order of loops. `.warnings`
    tells what is read otherwise than it stands there; with strict=False also what is left out because nothing here is
    equal to it. Raises InputError with file and line, all mistakes at once: PM660 for what is no YAML, PM661 for what
    is not read.
    """
    told = Findings(strict=strict)
    files = Files("from_zigzag", repeated=lambda place, what: told.no_equal(place, what, "ZigZag reads the last one."))
    outside = None if offchip is None else told.attempt(lambda: files.read(offchip))
    machine = told.attempt(lambda: machine_of(files.read(accelerator), outside, told))
    mappings = [] if mapping is None else told.attempt(lambda: mappings_of(files.read(mapping), told))
    listed = None if workload is None else told.attempt(lambda: files.read(workload).items("the workload"))
    layers: list[ZigzagLayer] = []
    read: list[tuple[Layer, Record]] = []
    for value in listed or [] if mappings is not None else []:
        with told.collecting():
            layer, own = layer_of(value, mappings or [], told)
            if machine is not None:
                rules = constraints_of(own, layer.sizes, machine.array, told)
                layers.append(ZigzagLayer(layer.name, layer.part.workload, rules))
            read.append((layer, own))
    told.stop()
    assert machine is not None and mappings is not None, "mistakes are raised"
    found = [layer for layer, _ in read]
    _check_numbers(found, told)
    _tell_outermost(machine, found, told)
    if read:
        tell_unused(read, mappings, told)
    told.stop()
    return ZigzagFiles(machine.arch, tuple(layers), _network(found) if found else None, told.warnings)


def _check_numbers(layers: list[Layer], told: Findings) -> None:
    """Tell numbers of layers that are given twice, and sources that are no layer's."""
    numbers = [each.number for each in layers]
    for place, layer in enumerate(layers):
        with told.collecting():
            if layer.number in numbers[:place]:
                raise layer.where.refuse(f"two layers have the id {layer.number}")
            for operand, source in layer.reads.items():
                if source not in numbers:
                    known = f"ids: {', '.join(map(str, numbers))[:100]}."
                    raise layer.where.refuse(f"operand_source.{operand} is {source}, which is no layer's id", known)


def _network(layers: list[Layer]) -> Network:
    """Return the network of layers; their operands come from other layers where the file says so."""
    names = {each.number: f"{each.name}#{each.number}" for each in layers}
    nodes = [MappedNode(names[each.number], each.operator, (each.part,)) for each in layers]
    edges = [
        (names[source], names[each.number])
        for each in layers
        for source in dict.fromkeys(each.reads.values())
        if source != each.number and source in names
    ]
    return network_of_nodes("zigzag", nodes, edges=edges)


def _tell_outermost(machine: Machine, layers: list[Layer], told: Findings) -> None:
    """Tell a capacity of the outermost memory that a layer's tensors exceed: here it holds all."""
    name, bits, place = machine.outermost
    for layer in layers:
        needed = sum(prod(tensor.shape) * tensor.bits for tensor in layer.part.workload.tensors)
        if needed > bits:
            what = f"the outermost memory {name} has {bits:,} bits, the tensors of {layer.name[:60]} {needed:,}"
            told.no_equal(place, what, "Here it holds all: give it a larger size.")
