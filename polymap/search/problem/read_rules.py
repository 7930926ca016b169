"""Reads constraints (a table from Python or JSON) into rules, and reports all mistakes together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from fractions import Fraction

from polymap.costmodel import window_dims
from polymap.inputs import Fields, is_list, is_table, shown
from polymap.ir import Architecture, MemoryLevel, Mistake, OptionError, Role, Workload, did_you_mean
from polymap.search.problem.goals import parse_single
from polymap.search.problem.rules import (
    AtLeast,
    AtMost,
    Factor,
    Held,
    Innermost,
    Intrinsic,
    Outermost,
    Outside,
    Rule,
    Rules,
    Utilization,
)

FIELDS = ("dataflow", "order", "outermost", "innermost", "fanouts", "store", "intrinsic", "min_utilization", "limits")


_STATIONARY = {
    "weight-stationary": Role.WEIGHT,
    "output-stationary": Role.OUTPUT,
    "input-stationary": Role.INPUT,
}
_ROWS = "row-stationary"
DATAFLOWS = (*_STATIONARY, _ROWS)


def rules_from_document(document: object, workload: Workload, arch: Architecture) -> Rules:
    """Return the rules of a table of constraints (None: without any), in a fixed order.

    order: dims outermost first, or several such lists; all loops over a dim are outside all loops over the next.
    outermost, innermost: dims. fanouts: {name: {forbid: dims, require: dims, factors: {dim: instances}}}. store:
    {level: {must: tensors, never: tensors, least: {tensor: elements}}}; roles such as @weight are allowed. intrinsic:
    {dim: size}. min_utilization: a share. dataflow: "weight-stationary", "input-stationary" or "output-stationary": the
    innermost level below all fan-outs that may hold the operand holds it, and all loops over dims that index it are
    outside all others; or "row-stationary" (Chen, Emer, Sze, ISCA 2016): such levels hold all operands, a compute unit
    slides along the last window with all its taps while loops over other dims are outside, and the taps of the first
    window are spread over a fan-out, the outermost that adds. limits: {objective: most}.

    Raises OptionError with every mistake (PM110-PM116 for values, PM540-PM547 for names and contradictions).
    """
    mistakes: list[Mistake] = []
    reader = _Reader(
        workload, arch, Fields.of({} if document is None else document, "constraints", mistakes, known=FIELDS), mistakes
    )
    rules = reader.rules()
    mistakes.extend(_contradictions(rules))
    if mistakes:
        raise OptionError(mistakes)
    return rules


def dataflow_obstacle(workload: Workload, arch: Architecture, name: str) -> str:
    """Return the reason why no mapping can have a dataflow, so that the rule would be void; "" where some can."""
    private = _private(arch)
    if not private:
        return f"no level of {shown(arch.name)} below the outermost is below all fan-outs"
    if name == _ROWS:
        if len({tap for _, tap in _windows(workload)}) < 2:
            return f"{shown(workload.name)} has no two sliding windows"
        if not arch.fanouts:
            return f"{shown(arch.name)} has no fan-out"
        away = [each.name for each in workload.tensors if not any(level.may_hold(each) for level in private)]
    else:
        role = _STATIONARY[name]
        still = [each for each in workload.tensors if each.role is role]
        if not still:
            return f"{shown(workload.name)} has no {role.value}"
        away = [] if any(level.may_hold(each) for level in private for each in still) else [still[0].name]
    return f"no level of {shown(arch.name)} below all fan-outs may hold {away[0]}" if away else ""


def _private(arch: Architecture) -> list[MemoryLevel]:
    """Return the inner levels that are below all fan-outs."""
    return [each for each in arch.levels[1:] if arch.fanouts_above(each.name) == arch.fanouts]


def _windows(workload: Workload) -> list[tuple[str, str]]:
    """Return (output dim, tap dim) of the windows of more than one tap."""
    extents = workload.extents()
    return [pair for pair in window_dims(workload) if extents[pair[1]] > 1] if len(workload.statements) == 1 else []


@dataclass(frozen=True, slots=True)
class _Reader:
    workload: Workload
    arch: Architecture
    fields: Fields
    mistakes: list[Mistake]

    def rules(self) -> Rules:
        found: list[Rule] = [*self._dataflow(), *self._orders(), *self._ends(), *self._fanouts(), *self._stores()]
        sizes = self._table("intrinsic")
        found += [Intrinsic(dim, size) for dim, size in self._sizes(sizes, "intrinsic") if size > 1]
        least = self.fields.number("min_utilization", Fraction(0))
        if least > 1:
            self.fields.refuse("PM113", "min_utilization", "Expected a number from 0 to 1.")
        elif least > 0:
            found.append(Utilization(least))
        return tuple(dict.fromkeys((*found, *self._limits())))

    def _dataflow(self) -> list[Rule]:
        name = self.fields.table.get("dataflow")
        if name is None or not self._is_known(
            "PM546", f"constraints: there is no dataflow {shown(name)}", name, list(DATAFLOWS)
        ):
            return []
        obstacle = dataflow_obstacle(self.workload, self.arch, str(name))
        if obstacle:
            hint = "Ask for an order of loops, or leave the dataflow out."
            self.mistakes.append(Mistake("PM546", f"constraints: no mapping is {name}: {obstacle}", hint))
            return []
        if name == _ROWS:
            return self._rows()
        role = _STATIONARY[str(name)]
        still = {tensor.name for tensor in self.workload.tensors if tensor.role is role}
        used = {
            dim
            for statement in self.workload.statements
            for access in (statement.target, *statement.reads)
            if access.tensor in still
            for index in access.index
            for dim in index.dims
        }
        return self._rules_that_keep(still) + self._inside(lambda dim: dim not in used)

    def _rows(self) -> list[Rule]:
        """Return the rules of the row-stationary form."""
        windows = _windows(self.workload)
        out, tap = windows[-1]
        spread = next(other for _, other in windows if other != tap)
        fanouts = [fanout for fanout in self.arch.fanouts if fanout.size > 1 and fanout.may_spread(spread)]
        adding = [fanout for fanout in fanouts if fanout.reduction]
        (place,) = (*adding, *fanouts, *self.arch.fanouts)[:1]
        row = [Factor(place.name, spread, 2, None), Intrinsic(tap, self.workload.extents()[tap])]
        return (
            self._rules_that_keep({each.name for each in self.workload.tensors})
            + row
            + self._inside({out, tap}.__contains__)
        )

    def _rules_that_keep(self, tensors: Set[str]) -> list[Rule]:
        """Return that each tensor is held by the innermost private level that may hold it."""
        private, found = _private(self.arch), list[Rule]()
        for tensor in sorted(tensors):
            may = [level for level in private if level.may_hold(self.workload.tensor(tensor))]
            found.append(Held((may or private)[-1].name, tensor, must=True))
        return found

    def _inside(self, is_inner: Callable[[str], bool]) -> list[Rule]:
        """Return that all loops over the inner dims are inside all others."""
        dims = [dim.name for dim in self.workload.dims if dim.extent > 1]
        return [Outside(a, b) for a in dims if not is_inner(a) for b in dims if is_inner(b)]

    def _orders(self) -> list[Rule]:
        lists = self.fields.items("order")
        nested = bool(lists) and all(is_list(one) for one in lists)
        chains = [(f"order[{n}]", one) for n, one in enumerate(lists)] if nested else [("order", lists)]
        found: list[Rule] = []
        for where, chain in chains:
            noted = len(self.mistakes)
            dims = self._dims(chain, where)
            if len(dims) == 1 and len(self.mistakes) == noted:
                self.mistakes.append(Mistake("PM541", f"constraints: {where} has one dim", "Two or more are ordered."))
            found += [Outside(outer, inner) for n, outer in enumerate(dims) for inner in dims[n + 1 :]]
        return found

    def _ends(self) -> list[Rule]:
        first = self._dims(self.fields.items("outermost"), "outermost")
        last = self._dims(self.fields.items("innermost"), "innermost")
        return [*([Outermost(first)] if first else []), *([Innermost(last)] if last else [])]

    def _fanouts(self) -> list[Rule]:
        names = [fanout.name for fanout in self.arch.fanouts]
        found: list[Rule] = []
        for name, value in self._table("fanouts").items():
            where = f"constraints: fanouts.{name}"
            if not self._is_known("PM545", f"{where}: there is no fan-out {shown(name)}", name, names):
                continue
            own = Fields.of(value, where, self.mistakes, known=("forbid", "require", "factors"))
            found += [Factor(name, dim, 1, 1) for dim in self._dims(own.items("forbid"), f"fanouts.{name}.forbid")]
            found += [Factor(name, dim, 2, None) for dim in self._dims(own.items("require"), f"fanouts.{name}.require")]
            factors = own.table.get("factors", {})
            if not is_table(factors):
                own.refuse("PM112", "factors", "Expected a table from dims to instances.")
                continue
            found += [Factor(name, dim, size, size) for dim, size in self._sizes(factors, f"fanouts.{name}.factors")]
        return found

    def _stores(self) -> list[Rule]:
        names = [level.name for level in self.arch.levels]
        found: list[Rule] = []
        for name, value in self._table("store").items():
            where = f"constraints: store.{name}"
            if not self._is_known("PM544", f"{where}: there is no level {shown(name)}", name, names):
                continue
            if name == names[0]:
                self.mistakes.append(Mistake("PM544", f"{where}: the outermost level always holds everything"))
                continue
            own = Fields.of(value, where, self.mistakes, known=("must", "never", "least"))
            for field in ("must", "never"):
                tensors = [t for item in own.items(field) for t in self._tensors(item, f"{where}.{field}")]
                found += [Held(name, tensor, field == "must") for tensor in tensors]
            found += self._least_elements(name, own, f"{where}.least")
        return found

    def _least_elements(self, level: str, own: Fields, where: str) -> list[Rule]:
        table = own.table.get("least", {})
        if not is_table(table):
            own.refuse("PM112", "least", "Expected a table from tensors to numbers of elements.")
            return []
        sizes, found = Fields(table, where, self.mistakes), list[Rule]()
        for item in table:
            for tensor in self._tensors(item, where):
                elements = sizes.integer(item, None)
                if not self._has_single_dims(tensor):
                    what = f"{where}: an axis of {shown(tensor)} is no single dim"
                    self.mistakes.append(Mistake("PM543", what, "Ask it of tensors such as C[m,n]."))
                elif elements is not None:
                    found.append(AtLeast(level, tensor, elements))
        return found

    def _has_single_dims(self, tensor: str) -> bool:
        accesses = [
            access
            for statement in self.workload.statements
            for access in (statement.target, *statement.reads)
            if access.tensor == tensor
        ]
        return all(len(index.dims) <= 1 for access in accesses for index in access.index)

    def _tensors(self, item: object, where: str) -> list[str]:
        """Return the tensors with this name or role (such as @input)."""
        known = {t.name: [t.name] for t in self.workload.tensors}
        for t in self.workload.tensors:
            known.setdefault(t.role.word, []).append(t.name)
        if isinstance(item, str) and item in known:
            return known[item]
        self._is_known("PM543", f"{where}: there is no tensor {shown(item)}", item, list(known))
        return []

    def _limits(self) -> list[Rule]:
        found: list[Rule] = []
        for text, value in self._table("limits").items():
            own = Fields({text: value}, "constraints: limits", self.mistakes)
            most = own.number(text, None)
            try:
                objective = parse_single(text, self.arch)
            except OptionError as error:
                self.mistakes.extend(error.mistakes)
                continue
            if most is not None:
                found.append(AtMost(objective, most))
        return found

    def _table(self, name: str) -> Mapping[str, object]:
        value = self.fields.table.get(name, {})
        if is_table(value):
            return value
        self.fields.refuse("PM112", name, "Expected a table.")
        return {}

    def _sizes(self, table: Mapping[str, object], where: str) -> list[tuple[str, int]]:
        own = Fields(table, f"constraints: {where}", self.mistakes)
        known = [dim for dim in table if self._is_dim(dim, where)]
        return [(dim, size) for dim in known if (size := own.integer(dim, None)) is not None]

    def _dims(self, items: object, where: str) -> tuple[str, ...]:
        if not is_list(items):
            self.mistakes.append(Mistake("PM112", f"constraints: {where} is {shown(items)}", "Expected a list."))
            return ()
        found: list[str] = []
        for item in items:
            if not self._is_dim(item, where):
                continue
            if item in found:
                self.mistakes.append(Mistake("PM116", f"constraints: {where} lists {shown(item)} twice"))
            else:
                found.append(str(item))
        return tuple(found)

    def _is_dim(self, item: object, where: str) -> bool:
        dims = [dim.name for dim in self.workload.dims]
        return self._is_known("PM542", f"constraints: {where}: there is no dim {shown(item)}", item, dims)

    def _is_known(self, code: str, what: str, item: object, known: list[str]) -> bool:
        if isinstance(item, str) and item in known:
            return True
        hint = did_you_mean(item[:64], known) if isinstance(item, str) else f"Known: {', '.join(known)}."
        self.mistakes.append(Mistake(code, what, hint))
        return False


def _contradictions(rules: Rules) -> list[Mistake]:
    """Return the contradictions between rules that follow from their text alone, whatever the workload and machine."""
    found: list[Mistake] = []

    def clash(what: str, hint: str) -> None:
        found.append(Mistake("PM547", f"constraints: {what}", hint))

    ends = {type(rule): rule.dims for rule in rules if isinstance(rule, Outermost | Innermost)}
    for dim in ends.get(Outermost, ()):
        if dim in ends.get(Innermost, ()):
            clash(f"{dim} is outermost and innermost", "A dim can be named at one end.")
    held = [rule for rule in rules if isinstance(rule, Held)]
    for rule in held:
        if rule.must and Held(rule.level, rule.tensor, must=False) in held:
            clash(f"{rule.level} must and may never hold {rule.tensor}", "Take one of them out.")
    by_place: dict[tuple[str, str], list[Factor]] = {}
    for rule in rules:
        if isinstance(rule, Factor):
            by_place.setdefault((rule.fanout, rule.dim), []).append(rule)
    for (fanout, dim), own in by_place.items():
        most = min((rule.most for rule in own if rule.most is not None), default=None)
        if most is not None and max(rule.least for rule in own) > most:
            clash(f"{dim} is required and barred on {fanout}", "Name it in one of forbid, require and factors.")
    circle = _circle({rule: None for rule in rules if isinstance(rule, Outside)})
    if circle:
        clash(f"the orders go in a circle: {' outside '.join(circle)}", "Take one of them out.")
    return found


def _circle(pairs: Mapping[Outside, None]) -> list[str]:
    """Return a cycle of order rules: each dim must be outside the next, the last repeats the first. [] if there is
    none."""
    inner: dict[str, list[str]] = {}
    for pair in pairs:
        inner.setdefault(pair.outer, []).append(pair.inner)

    def walk(path: list[str], seen: set[str]) -> list[str]:
        for dim in inner.get(path[-1], []):
            if dim in path:
                return [*path[path.index(dim) :], dim]
            if dim not in seen:
                seen.add(dim)
                found = walk([*path, dim], seen)
                if found:
                    return found
        return []

    circles = [circle for circle in (walk([dim], {dim}) for dim in inner) if circle]
    return min(circles, key=len) if circles else []
