"""Timeloop's constraints as those of `explore`, where these say exactly the same."""

from __future__ import annotations

from typing import Any

from polymap.importers.timeloop.arch import Machine, Spread
from polymap.importers.timeloop.directives import Directive, factors_of, head_of, held_by, permutation_of
from polymap.importers.timeloop.findings import Findings
from polymap.importers.timeloop.parts import CONSTRAINTS, directives_of, tell_unread
from polymap.importers.timeloop.yaml_tables import Record, Value
from polymap.ir import Workload

# `no_link_transfer` is how it is here: neighbours forward nothing.
_UNREAD = (
    "default_max_factor", "default_min_factor", "remainders", "no_reuse", "maximize_dims", "maximize_dims_capacity",
    "rmw_first_update", "no_coalesce", "min", "proportion",
)  # fmt: skip


def constraints_of(sections: list[Value], workload: Workload, machine: Machine, told: Findings) -> dict[str, Any]:
    """Return the constraints of `explore`: data spaces as `store`, spatial factors, orders and splits as `fanouts`, of
    the sections of a file and of the machine's nodes. Tells others (PM661): what a level's own loops must be has no
    equal there, unless it asks for nothing."""
    reader = _Constraints(workload, machine, told)
    for section in sections:
        seen: set[tuple[str, str]] = set()
        for value in directives_of(section):
            with told.collecting():
                directive = head_of(value, machine, CONSTRAINTS, told)
                if directive[:2] in seen:
                    what = f"a second {directive.kind} directive of {directive.target}"
                    raise value.refuse(what, "Write one with all of both.")
                seen.add(directive[:2])
                reader.read(directive)
    for target, groups in machine.constraints.items():
        for kind, group in groups.items():
            if kind == "dataspace" or kind not in CONSTRAINTS or not group.plain:
                continue  # a machine's levels say what they hold; what is not known is told with the machine
            with told.collecting():
                fields = group.fields(f"constraints.{kind}", ("type", "target", *CONSTRAINTS[kind]), told)
                reader.read(Directive(target, kind, fields, group))
    return reader.found()


class _Constraints:
    """Collects constraints. Dims of extent 1 have no loops, whatever is asked of them."""

    def __init__(self, workload: Workload, machine: Machine, told: Findings) -> None:
        self._workload, self._machine, self._told = workload, machine, told
        self._dims = [dim for dim, extent in workload.extents().items() if extent > 1]
        self._store: dict[str, dict[str, list[str]]] = {}
        self._fanouts: dict[str, dict[str, Any]] = {}

    def found(self) -> dict[str, Any]:
        """Return what was read."""
        found = {"store": self._store, "fanouts": self._fanouts}
        return {name: table for name, table in found.items() if table}

    def read(self, directive: Directive) -> None:
        """Note a directive, or tell what of it has no equal."""
        target, kind, fields, where = directive
        tell_unread(target, Value(fields, where.place), self._told, _UNREAD)
        if kind == "bypass":
            self._hold(target, fields, where)
        if kind in ("temporal", "spatial"):
            factors, others = self._factors(fields)
            if others:
                hint = "Read: factors with =, such as C=4."
                self._told.no_equal(
                    where.place, f"the {kind} factors {', '.join(others)} of {target} are not read", hint
                )
            if kind == "temporal":
                self._temporal(target, fields, factors, where)
            else:
                self._spatial(target, fields, factors, where)

    def _hold(self, target: str, fields: Record, where: Value) -> None:
        kept, bypassed = held_by(fields, self._workload)
        if ("dummy", target) in self._machine.slots:
            if kept:
                raise where.refuse(
                    f"{target} is a dummy storage, which holds nothing", "Bypass every data space there."
                )
            return
        for word, tensors in (("must", kept), ("never", bypassed)):
            if tensors:
                names = self._store.setdefault(target, {}).setdefault(word, [])
                names += [each for each in tensors if each not in names]

    def _factors(self, fields: Record) -> tuple[dict[str, int], list[str]]:
        """Return what factors must be, of dims that have loops, and those of other forms as they are written."""
        found: dict[str, int] = {}
        others: list[str] = []
        given = [each for name in ("factors", "factors_only") if name in fields
                 for each in factors_of(fields[name], self._workload)]  # fmt: skip
        for dim, sign, number, where in given:
            if dim in self._dims and (sign != "=" or number == 0):
                others.append(f"{dim}{sign}{number}")
            elif dim in self._dims and found.setdefault(dim, number) != number:
                raise where.refuse(f"the factor of {dim} is {found[dim]} and {number}", "Give it once.")
        ones: list[str] = []
        if "factors_only" in fields:
            ones += self._dims
        for name, is_of in (("no_iteration_over_dataspaces", True), ("must_iterate_over_dataspaces", False)):
            if name in fields and fields[name].plain:
                held = held_by(Record(keep=fields[name]), self._workload)[0]
                dims = {dim for tensor in held for dim in self._dims_of(tensor)}
                ones += [dim for dim in self._dims if (dim in dims) is is_of]
        return dict.fromkeys(ones, 1) | found, others

    def _dims_of(self, tensor: str) -> set[str]:
        accesses = [access for each in self._workload.statements for access in (each.target, *each.reads)]
        indices = [index for access in accesses if access.tensor == tensor for index in access.index]
        return {dim for index in indices for _, dim in index.terms if isinstance(dim, str)}

    def _temporal(self, target: str, fields: Record, factors: dict[str, int], where: Value) -> None:
        """Loops of a level have no equal, but where nothing is asked: at a dummy storage, where none stand anyway, or
        of dims that have none."""
        if ("dummy", target) in self._machine.slots and set(factors.values()) <= {1}:
            return
        order = permutation_of(fields["permutation"], self._workload) if "permutation" in fields else []
        order = order if len(self._dims) > 1 else []
        asked = [f"{dim}={factor}" for dim, factor in factors.items()]
        if any(dim in self._dims for dim in order):
            asked.append(f"the permutation {','.join(order)}")
        if asked:
            hint = "A level's own loops have no equal: order, outermost and innermost are of all levels."
            self._told.no_equal(where.place, f"a temporal constraint of {target} is not read: {', '.join(asked)}", hint)

    def _spatial(self, target: str, fields: Record, factors: dict[str, int], where: Value) -> None:
        """Note spatial factors: 1 forbids a dim, more asks for so many; the order on one fan-out changes no cost."""
        spread = self._machine.spreads.get(target, Spread("", ""))
        asked = {dim: factor for dim, factor in factors.items() if factor > 1}
        if spread == ("", ""):
            if asked:
                raise where.refuse(f"{target} has no fan-out", f"Known: {', '.join(self._machine.spreads) or 'none'}.")
            return
        along_x = self._along_x(target, fields, factors, where)
        for axis, name in zip("XY", spread, strict=True):
            forbidden = [dim for dim, factor in factors.items() if factor == 1]
            if along_x is not None:
                forbidden += [dim for dim in self._dims if (dim in along_x) is (axis == "Y") and dim not in forbidden]
            if name and forbidden:
                names = self._fanouts.setdefault(name, {}).setdefault("forbid", [])
                names += [dim for dim in forbidden if dim not in names]
        for dim, factor in asked.items():
            names = [name for axis, name in zip("XY", spread, strict=True)
                     if name and (along_x is None or (dim in along_x) is (axis == "X"))]  # fmt: skip
            if len(names) == 1:
                self._fanouts.setdefault(names[0], {}).setdefault("factors", {})[dim] = factor
            else:
                told = "along X or Y alone, or with permutation and split"
                what = f"the spatial factor {factor} of {dim} at {target} is not read"
                self._told.no_equal(where.place, what, f"Read: 1, and more on a fan-out {told}.")

    def _along_x(self, target: str, fields: Record, factors: dict[str, int], where: Value) -> list[str] | None:
        """Return the dims that a split puts along X: so many of the permutation, innermost first; None without one."""
        order = permutation_of(fields["permutation"], self._workload) if "permutation" in fields else []
        if fields.given("split") is None:
            return None
        split = fields["split"]
        if not isinstance(split.plain, int):
            self._told.no_equal(split.place, f"split of {target} is {split.told()}", "Expected an integer.")
            return None
        if split.integer("split", 0) >= len(self._workload.extents()):
            return list(self._workload.extents())
        if split.plain > len(order) and any(dim not in order and factors.get(dim) != 1 for dim in self._dims):
            what = f"split of {target} is {split.plain}, of a permutation of {len(order)}"
            self._told.no_equal(where.place, what, "Name every dimension in the permutation.")
            return None
        return order[: split.plain]
