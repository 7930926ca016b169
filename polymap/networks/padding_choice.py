"""What an instruction of a fixed width makes of extents that are no multiples of it: padded, peeled, or narrower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping as Table
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from polymap.explore import search
from polymap.formatting import exact
from polymap.inputs import answers_in_words, as_integer, is_table, shown
from polymap.ir import Architecture, Brief, Mistake, OptionError, Shown, Workload, did_you_mean, is_box
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import SearchResult
from polymap.search.problem import Goal, divisors, parse_objective, unit_of
from polymap.workload import workload_from_document, workload_to_document

_ADD_UP = Goal.ENERGY, Goal.LATENCY, Goal.TRAFFIC


@dataclass(frozen=True, slots=True, repr=False)
class PaddingChoice(Brief):
    """One way to meet the widths. runs: (workload, widths, answer) of each loop nest, one after the other; a nest that
    goes on with a sum reads what is there. value: of the best mappings of all (None: of none); bound: what no mappings
    of these nests beat; instances: those of padding included."""

    name: str
    runs: tuple[tuple[Workload, tuple[tuple[str, int], ...], SearchResult], ...]
    instances: int

    @property
    def value(self) -> Fraction | None:
        """The sum over the nests."""
        values = [result.value for _, _, result in self.runs]
        known = [Fraction(value) for value in values if value is not None]
        return sum(known, Fraction(0)) if len(known) == len(values) else None

    @property
    def bound(self) -> Fraction:
        """The sum over the nests of what no mapping beats."""
        return sum((Fraction(result.bound or 0) for _, _, result in self.runs), Fraction(0))


@dataclass(frozen=True, slots=True, repr=False)
class PaddingStudy(Shown):
    """The answer of `paddings`: choices as listed there. is_proven: whether the best is at most what bounds the others
    and itself."""

    title: str
    objective: str
    choices: tuple[PaddingChoice, ...]

    @property
    def best(self) -> PaddingChoice | None:
        """The choice with the least value, the first of equal ones; None where nothing has a mapping."""
        known = [(value, n) for n, each in enumerate(self.choices) if (value := each.value) is not None]
        return self.choices[min(known)[1]] if known else None

    @property
    def is_proven(self) -> bool:
        """Whether no choice can be better than the best one: each is bounded by its value, or has no mapping."""
        best = self.best
        value = None if best is None else best.value
        return value is not None and all(
            any(result.status == "INFEASIBLE" for _, _, result in each.runs) or each.bound >= value
            for each in self.choices
        )

    def __str__(self) -> str:
        unit = unit_of(self.objective)
        lines = [f"{self.title}: {self.objective}"]
        for each in self.choices:
            value = "none" if each.value is None else f"{exact(each.value)}{unit}"
            widths = "; ".join(", ".join(f"{dim} {width}" for dim, width in told) for _, told, _ in each.runs)
            lines.append(
                f"  {each.name:9} {value:>14} (bound {exact(each.bound)}{unit}), {each.instances:,} instances: {widths}"
            )
        best = self.best
        proven = "proven" if self.is_proven else "not proven"
        return "\n".join([*lines, "no mapping" if best is None else f"best: {best.name}, {proven}"])


@answers_in_words
def paddings(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    widths: Table[str, int],
    objective: str = "energy",
    *,
    tiles: str = "divide",
    time_limit_s: float = 60,
) -> PaddingStudy:
    """Return what mappings cost whose tiles are whole multiples of an instruction's widths, where extents are not.

    widths: of dims, such as {"k": 16}. The choices: "padded" to the next multiple, extra instances, elements and
    traffic counted as all others; "peeled": a nest of whole multiples, and one for each rest with tiles of that rest;
    "narrower": tiles of the largest divisor that is no wider. objective: energy, latency or traffic, as values of nests
    are added up. time_limit_s: of all searches together.

    Raises OptionError (PM487) for other objectives, widths that are no integers of at least 1 of the workload's dims,
    and programs of several statements.
    """
    workload, arch = question_of(workload, arch)
    told = _checked(workload, arch, widths, objective)
    document = workload_to_document(workload)
    sizes = workload.extents()
    whole = {dim: -(-sizes[dim] // width) * width for dim, width in told.items()}
    divisor = {dim: max(d for d in divisors(sizes[dim]) if d <= width) for dim, width in told.items()}
    plans = {
        "padded": [(sizes | whole, told, False)],
        "peeled": list(_peeled(workload, told)),
        "narrower": [(sizes, divisor, False)],
    }
    share = time_limit_s / sum(map(len, plans.values()))
    choices: list[PaddingChoice] = []
    for name, plan in plans.items():
        runs: list[tuple[Workload, tuple[tuple[str, int], ...], SearchResult]] = []
        for extents, tiled, goes_on in plan:
            nest = _resized(document, workload, extents, goes_on=goes_on)
            answer = search(nest, arch, objective, tiles, time_limit_s=share, constraints={"intrinsic": tiled})
            runs.append((nest, tuple(tiled.items()), answer))
        instances = sum(nest.instances_of_boxes() for nest, _, _ in runs)
        choices.append(PaddingChoice(name, tuple(runs), instances))
    return PaddingStudy(f"{workload.name} on {arch.name}", objective, tuple(choices))


def _checked(workload: Workload, arch: Architecture, widths: object, objective: str) -> dict[str, int]:
    hint = 'Expected the widths of an instruction by dims, such as {"k": 16}, and energy, latency or traffic.'
    if parse_objective(objective, arch).goal not in _ADD_UP:
        raise OptionError(Mistake("PM487", f"values of {shown(objective)} of several nests do not add up", hint))
    is_einsum = len(workload.statements) == 1 and "einsum" in workload_to_document(workload)
    if not is_einsum or not is_box(workload.statements[0]):
        what = f"{workload.name} is no single einsum over a box"
        raise OptionError(Mistake("PM487", what, "Ask for each layer by itself."))
    if not is_table(widths) or not widths:
        what = "there are no widths" if is_table(widths) else f"the widths are {shown(widths)}"
        raise OptionError(Mistake("PM487", what, hint))
    sizes, found = workload.extents(), dict[str, int]()
    for dim, width in widths.items():
        number = as_integer(width)
        if dim not in sizes:
            what = f"{workload.name} has no dim {shown(dim)} to pad"
            raise OptionError(Mistake("PM487", what, did_you_mean(str(dim), list(sizes))))
        if number is None or number < 1:
            raise OptionError(Mistake("PM487", f"the width of {shown(dim)} is {shown(width)}", hint))
        found[str(dim)] = number
    return found


def _peeled(workload: Workload, widths: dict[str, int]) -> Iterator[tuple[dict[str, int], dict[str, int], bool]]:
    """Yield the nests of whole multiples and rests: extents, the tiles' widths, and whether it goes on with sums of
    another one."""
    sizes = workload.extents()
    summed = set(sizes) - set(workload.statements[0].target.dims)
    parts: list[list[tuple[int, int]]] = []
    for dim, width in widths.items():
        most = sizes[dim] // width * width
        parts.append([(size, tile) for size, tile in ((most, width), (sizes[dim] - most, sizes[dim] - most)) if size])
    first = {dim: own[0] for dim, own in zip(widths, parts, strict=True)}
    for chosen in product(*parts):
        own = dict(zip(widths, chosen, strict=True))
        goes_on = any(own[dim] != first[dim] for dim in summed.intersection(own))
        yield (
            sizes | {dim: size for dim, (size, _) in own.items()},
            {dim: tile for dim, (_, tile) in own.items()},
            goes_on,
        )


def _resized(document: dict[str, object], workload: Workload, extents: dict[str, int], *, goes_on: bool) -> Workload:
    """Return the workload with other extents. goes_on: its output is there before."""
    initial = [tensor.name for tensor in workload.tensors if tensor.initial]
    more = [workload.statements[0].target.tensor] if goes_on else []
    return workload_from_document(document | {"sizes": extents, "initial": list(dict.fromkeys(initial + more))})
