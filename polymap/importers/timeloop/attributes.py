"""Attributes of Timeloop's components: each is understood, cannot change an answer, or is refused.

The three lists, with reasons, are in docs/howto/timeloop.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.yaml_tables import Value
from polymap.importers.tuning import TUNING
from polymap.ir import InputError

_SPELLINGS = {
    "word_bits": ("word_bits", "word_width", "datawidth"),
    "block_size": ("block_size", "n_words"),
    "cluster_size": ("cluster_size",),
    "width": ("width", "memory_width", "data_storage_width"),
    "depth": ("depth", "memory_depth", "data_storage_depth"),
    "entries": ("entries",),
    "sizeKB": ("sizeKB",),
    "multiple_buffering": ("multiple_buffering",),
    "instances": ("instances",),
    "meshX": ("meshX",),
    "meshY": ("meshY",),
}
_SIZES = ("depth", "entries", "sizeKB")
CAPACITIES = tuple(name for size in _SIZES for name in _SPELLINGS[size])
_BANDWIDTHS = ("bandwidth", "shared_bandwidth", "read_bandwidth", "write_bandwidth")
_COPIES = ("instances", "meshX", "meshY")

# Accelergy computes energies and areas from them; energies are those of the ERT, and no answer has seconds.
_ESTIMATES = (
    "technology", "tech_node", "type", "voltage", "latency", "cycle_time", "cycle_seconds", "global_cycle_seconds",
    "action_latency_cycles", "area", "cluster_area", "area_scale", "energy_scale", "dynamic_energy_scale",
    "static_energy_scale", "n_banks", "num_banks", "nbanks", "n_ports", "num_ports", "nports", "n_rd_ports",
    "n_wr_ports", "n_rdwr_ports", "n_rw_ports", "n_buffets", "update_fifo_depth", "ag_datawidth", "counter_width",
    "version", "control_queue_depth", "widthscale", "depthscale", "real_depth",
)  # fmt: skip
# Every tensor is dense here: `sparse_optimizations` are refused.
_SPARSE = (
    "metadata_datawidth", "metadata_word_bits", "metadata_block_size", "metadata_width", "metadata_storage_width",
    "metadata_depth", "metadata_storage_depth", "metadata_n_banks", "metadata_counter_width",
    "compression_supported", "decompression_supported", "concordant_compressed_tile_traversal",
)  # fmt: skip
# They change what Timeloop's networks count, and networks have no energy there.
_NETWORK = ("reduction_supported", "network_word_bits")
# A compute unit has the energy of its action in the ERT, whatever the widths of its operands.
_OPERANDS = ("word_bits", "datawidth", "width", "multiplier_width", "adder_width", "num_pipeline_stages")

# Read where they have this value, which asks for nothing; what would work otherwise.
_NEUTRAL: dict[str, tuple[object, str]] = {
    "min_utilization": (0, "No machine here has a least occupancy: leave it out."),
    "allow_overbooking": (False, "Tiles fit exactly here: leave it out."),
    "tile_partition_supported": (False, "Tensors are dense here: leave it out."),
    "has_power_gating": (False, "All copies leak here: leave it out."),
    "network_fill_latency": (0, "Networks take no cycles here: leave it out."),
    "network_drain_latency": (0, "Networks take no cycles here: leave it out."),
    "fill_latency": (0, "Networks take no cycles here: leave it out."),
    "drain_latency": (0, "Networks take no cycles here: leave it out."),
    "n_instances": (1, "Copies are said by instances, by a name such as PE[0..7], or by spatial (version 0.4)."),
    "per_dataspace_bandwidth_consumption_scale": ({}, "Bandwidths are of bits, whatever the tensor."),
}
NO_NETWORKS = "Networks are not read: fan-outs of the machine may have energies (pj_per_word_hop)."
# Known to Timeloop, with something to count that has no equal.
_REFUSED = {
    **dict.fromkeys(("vector_access_energy", "energy", "addr_gen_energy"), "Energies are those of a table ERT."),
    **dict.fromkeys(
        ("network_read", "network_fill", "network_drain", "network_update", "network_operand", "network_result",
         "network_type", "router_energy", "wire_energy", "tile_width", "energy_per_hop", "energy_per_ingress"),
        NO_NETWORKS,
    ),
    "shared_read_bandwidth": "A bandwidth here is of each copy: read_bandwidth.",
}  # fmt: skip

_IGNORED = {
    "storage": (*_ESTIMATES, *_SPARSE, *_NETWORK),
    "compute": (*_ESTIMATES, *_SPARSE, *_NETWORK, *_OPERANDS),
}
_READ = {
    "storage": (*(name for names in _SPELLINGS.values() for name in names), *_BANDWIDTHS),
    "compute": _COPIES,
}
KINDS = ("storage", "compute")


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a component that say something, by name. where: the component."""

    name: str
    where: Value
    fields: dict[str, Value]

    def integer(self, name: str) -> int | None:
        """Return the integer of an attribute under any of its spellings, None where it is not given."""
        given = [(each, self.fields[each]) for each in _SPELLINGS[name] if _is_given(self.fields.get(each))]
        values = [value.integer(f"{each} of {self.name}") for each, value in given]
        if len(set(values)) > 1:
            told = " and ".join(f"{each} {value}" for (each, _), value in zip(given, values, strict=True))
            raise given[1][1].refuse(f"{self.name} has {told}", "Give one of them.")
        return values[0] if values else None

    def number(self, name: str) -> Fraction | None:
        """Return the number of an attribute, None where it is not given."""
        value = self.fields.get(name)
        return value.number(f"{name} of {self.name}") if value is not None and _is_given(value) else None

    def refuse(self, attribute: str, what: str, hint: str) -> InputError:
        """Return an error at the line of an attribute, under any of its spellings."""
        found = (self.fields.get(each) for each in _SPELLINGS.get(attribute, (attribute,)))
        return next((each for each in found if each is not None), self.where).refuse(what, hint)


def attributes_of(
    name: str, value: Value, kinds: Iterable[str], told: Findings, *, has_variables: bool = False
) -> dict[str, Value]:
    """Return the attributes of a component or container that components of these kinds read; tells every attribute that
    is not read and might change an answer. has_variables: names that nobody knows are variables, which no component
    reads."""
    read = list(dict.fromkeys(each for kind in kinds for each in _READ[kind]))
    ignored = [each for kind in kinds for each in _IGNORED[kind]]
    known = (*read, *ignored, *_NEUTRAL, *_REFUSED, "power_gated_at")
    if "real_depth" in value.table(name):  # what Accelergy's compound component of a register file computes for itself
        computed = ("memory_width", "memory_depth")
        value = Value({each: one for each, one in value.table(name).items() if each not in computed}, value.place)
    if has_variables:
        known = (*known, *(each.replace("-", "_") for each in value.table(name)))
    found = value.fields(name, known, told)
    for each, one in found.items():
        _tell(name, each, one, told)
    return {each: one for each, one in found.items() if each in read}


def holds_nothing(fields: dict[str, Value]) -> bool:
    """Whether the attributes of a memory say a capacity of 0."""
    given = [fields[name].plain for name in CAPACITIES if name in fields]
    return any(isinstance(each, int) and not isinstance(each, bool) and each == 0 for each in given)


def reads(kind: str, attribute: str) -> bool:
    """Whether a component of this kind reads the attribute."""
    return attribute in _READ[kind]


def tell_inherited(attributes: Attributes, around: dict[str, Value], told: Findings) -> None:
    """Tell an attribute of the subtree around a component of version 0.3 that the component reads and does not give:
    Timeloop takes its own default there, Accelergy the subtree's."""
    for names in _SPELLINGS.values():
        if not any(_is_given(attributes.fields.get(name)) for name in names):
            for name in names:
                if name in around:
                    what = f"{name} of a subtree is not that of {attributes.name} (it is {around[name].told()})"
                    told.no_equal(around[name].place, what, f"Give {name} to {attributes.name}.")


def _tell(name: str, attribute: str, value: Value, told: Findings) -> None:
    """Tell an attribute that is known and asks for something that has no equal."""
    hint = ""
    if attribute in _REFUSED:
        hint = _REFUSED[attribute]
    elif attribute in _NEUTRAL:
        accepted, otherwise = _NEUTRAL[attribute]
        same = value.plain == accepted and isinstance(value.plain, bool) == isinstance(accepted, bool)
        hint = "" if same else otherwise
    elif attribute == "power_gated_at" and value.plain != name:
        hint = "All copies leak here: leave it out."
    if hint and _is_given(value):
        told.no_equal(value.place, f"{name}.{attribute} is not read (it is {value.told()})", hint)


def _is_given(value: Value | None) -> bool:
    """Whether an attribute stands there with a value: null is none."""
    return value is not None and value.plain is not None


class Memory(NamedTuple):
    """bits: of a data word; cluster: copies that share one memory of `width`. level: of a level's document its word,
    capacity, buffering and bandwidths; no capacity_bits where none is given, None where the file says null."""

    bits: int
    cluster: int
    level: dict[str, Any]

    def in_elements_of(self, bits: int) -> dict[str, Any]:
        """Return the level's document where an element has so many bits: as many elements of everything."""
        scaled = {name: None if amount is None else Fraction(amount) * bits / self.bits
                  for name, amount in self.level.items() if name != "buffering"}  # fmt: skip
        whole = {
            name: int(each) if each is not None and each.denominator == 1 else each for name, each in scaled.items()
        }
        return self.level | whole


def memory_of(attributes: Attributes, told: Findings, *, is_list: bool) -> Memory:
    """Return what the attributes of a memory say. is_list: of version 0.4, where a datawidth is required and copies
    share a memory only where the file says so; before, a data word has 16 bits where nothing is said."""
    bits = attributes.integer("word_bits") or (None if is_list else TUNING.word_bits)
    if bits is None:
        raise attributes.refuse("word_bits", f"{attributes.name} has no datawidth", "Give the bits of a data word.")
    block, cluster = _line(attributes, bits, 1 if is_list else None)
    level: dict[str, Any] = {"word_bits": bits * block * cluster}
    if (words := _capacity_words(attributes, bits, block)) is not None:
        level["capacity_bits"] = words * bits
    elif any(name in attributes.fields for name in CAPACITIES):
        level["capacity_bits"] = None
    buffering = attributes.number("multiple_buffering")
    if buffering is not None and (buffering.denominator != 1 or buffering < 1):
        what = f"multiple_buffering of {attributes.name} is {float(buffering)}"
        raise attributes.refuse("multiple_buffering", what, "Expected an integer >= 1.")
    if buffering is not None and words is not None:
        level["buffering"] = int(buffering)
    return Memory(bits, cluster, level | _bandwidths(attributes, bits, told))


def _line(attributes: Attributes, bits: int, default_cluster: int | None) -> tuple[int, int]:
    """Return words per block, and how many copies share a memory: width = bits * block * cluster."""
    block, cluster, width = (attributes.integer(each) for each in ("block_size", "cluster_size", "width"))
    cluster = cluster or default_cluster
    if width is None:
        return block or 1, cluster or 1
    words = width // bits
    block = block or words // (cluster or 1)
    cluster = cluster or words // (block or 1)
    if not block or width != bits * block * cluster:
        told = f"{bits} bits of a data word x {block or 1} words of a block x {cluster or 1} of a cluster"
        raise attributes.refuse("width", f"width of {attributes.name} is {width}, not {told}", "Make them agree.")
    return block, cluster


def _capacity_words(attributes: Attributes, bits: int, block: int) -> int | None:
    """Return the data words that one copy holds, None where no capacity is given."""
    depth, entries, kilobytes = (attributes.integer(each) for each in _SIZES)
    found = {
        "depth": None if depth is None else depth * block,
        "entries": entries,
        "sizeKB": None if kilobytes is None else kilobytes * 8192 // bits,
    }
    given = {name: words for name, words in found.items() if words is not None}
    if len(set(given.values())) > 1:
        told = " and ".join(f"{name} ({words} words)" for name, words in given.items())
        raise attributes.refuse("depth", f"{attributes.name} has {told}", "Give one of them.")
    return next(iter(given.values()), None)


def _bandwidths(attributes: Attributes, bits: int, told: Findings) -> dict[str, Any]:
    """Return the bandwidths of a copy in bits per cycle, from words per cycle."""
    both, shared, read, write = (attributes.number(name) for name in _BANDWIDTHS)
    if both is not None and shared is read is write is None:
        read = write = both / 2
    elif both is not None or (shared is not None and (read is not None or write is not None)):
        given = [name for name in _BANDWIDTHS if attributes.number(name) is not None]
        raise attributes.refuse(given[0], f"{attributes.name} has {' and '.join(given)}",
                                "Give shared_bandwidth, or read_bandwidth and write_bandwidth.")  # fmt: skip
    if (read is None) != (write is None):
        alone = "write_bandwidth" if read is None else "read_bandwidth"
        what = f"{attributes.name} has a {alone} alone"
        told.no_equal(
            attributes.fields[alone].place, what, "Give both, or shared_bandwidth; else accesses take no time."
        )
        return {}
    found = {"": shared, "read_": read, "write_": write}
    return {f"{way}bandwidth_bits_per_cycle": words * bits for way, words in found.items() if words is not None}
