"""Which dataflow the best mapping has, over the sizes of two buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polymap.costmodel import dataflow
from polymap.explore import search
from polymap.inputs import answers_in_words, expected_list, shown
from polymap.ir import Mistake, OptionError, Shown
from polymap.networks.buffer_sweep import sizes_of, with_capacity
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import Options


@dataclass(frozen=True, slots=True)
class Winner:
    """The best mapping known for one pair of sizes: its dataflow, its energy in pJ, and whether it is proven that none
    costs less. None: no mapping is known; where that is proven, nothing fits."""

    dataflow: str | None
    energy_pj: float
    is_proven: bool

    @property
    def name(self) -> str:
        """Return the dataflow, or why there is none."""
        return self.dataflow or ("nothing fits" if self.is_proven else "none known")


@dataclass(frozen=True, slots=True, repr=False)
class WinnerStudy(Shown):
    """The answer of `winners`. across, up: (level, sizes in bits, rising); winners: [up][across]."""

    title: str
    across: tuple[str, tuple[int, ...]]
    up: tuple[str, tuple[int, ...]]
    winners: tuple[tuple[Winner, ...], ...]


@answers_in_words
def winners(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    across: tuple[str, Sequence[int | str]],
    up: tuple[str, Sequence[int | str]],
    *,
    time_limit_s: float = 60,
) -> WinnerStudy:
    """Return the dataflow of the mapping of least energy (dividing tiles) for each pair of sizes.

    across, up: (level, sizes in bits or with a unit). Raises OptionError for unknown levels and sizes that are no
    integers of at least 1, and for one level on both axes.
    """
    workload, arch = question_of(workload, arch)
    axes: list[tuple[int, ...]] = []
    for axis in (across, up):
        if len(expected_list(axis, "an axis")) != 2:
            raise OptionError(Mistake("PM120", f"an axis is {shown(axis)}", "Expected (level, sizes in bits)."))
        axes.append(tuple(sizes_of(arch, *axis)))
    if across[0] == up[0]:
        what = f"both axes are sizes of '{up[0]}'"
        raise OptionError(Mistake("PM120", what, "Name two levels; of one, ask for `study.capacity`."))
    Options(tiles="divide", time_limit_s=time_limit_s).check()
    rows: list[tuple[Winner, ...]] = []
    share = time_limit_s / (len(axes[0]) * len(axes[1]))
    for tall in axes[1]:
        row: list[Winner] = []
        for wide in axes[0]:
            machine = with_capacity(with_capacity(arch, across[0], wide), up[0], tall)
            result = search(workload, machine, "energy", "divide", time_limit_s=share)
            if result.best is None or result.cost is None:
                row.append(Winner(None, 0.0, is_proven=result.status == "INFEASIBLE"))
                continue
            name = dataflow(result.workload or workload, machine, result.best, result.cost).value
            row.append(Winner(name, result.cost.energy_pj, is_proven=result.stated == "OPTIMAL"))
        rows.append(tuple(row))
    title = f"{workload.name} on {arch.name}: the mapping of least energy"
    return WinnerStudy(title, (across[0], axes[0]), (up[0], axes[1]), tuple(rows))
