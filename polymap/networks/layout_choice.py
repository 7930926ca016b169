"""Which layout every tensor between the layers of a network should have: least bursts, proven by CP-SAT.

A tensor is written in one layout by its producer. Each consumer reads it in that one, or in another into which it is
converted once for all consumers that want it. Every mapping stays as it is; its bursts are counted in every layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from ortools.sat.python import cp_model

from polymap.costmodel import Layout, bursts_of, bursts_of_layouts, candidates
from polymap.formatting import listing
from polymap.inputs import answers_in_words, expected_kind, expected_seconds, is_list, shown
from polymap.ir import Architecture, BudgetError, Mistake, OptionError, Shown, SolverError, Tensor
from polymap.networks.exploration import LayerAnswer, NetworkAnswer
from polymap.networks.model import Feed, Network
from polymap.networks.tuning import TUNING

Edge = tuple[str, str, str]  # producer, consumer, and the consumer's tensor or ""


@dataclass(frozen=True, slots=True)
class Use:
    """A node that writes or reads a tensor, and which tensor of its workload that is. bursts: per layout."""

    node: str
    tensor: str
    bursts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A tensor between nodes: who writes it and who reads it, in which layouts, and what conversions cost.

    conversions: [from][to] bursts of reading all of it in one layout and writing it in another; 0 from each to itself.
    """

    producer: Use
    consumers: tuple[Use, ...]
    layouts: tuple[Layout, ...]
    conversions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class ChosenLayout:
    """The layouts of one boundary: as it is written, and as each consumer reads it; bursts, conversions included."""

    boundary: Boundary
    written: Layout
    read: tuple[Layout, ...]
    bursts: int

    @property
    def converted(self) -> tuple[Layout, ...]:
        """The layouts into which the tensor is converted, each once."""
        return tuple(dict.fromkeys(each for each in self.read if each != self.written))


def chosen_layout(boundary: Boundary, written: int, read: tuple[int, ...]) -> ChosenLayout:
    """Return a boundary with its layouts, by number, and its bursts."""
    total = boundary.producer.bursts[written]
    total += sum(use.bursts[place] for use, place in zip(boundary.consumers, read, strict=True))
    total += sum(boundary.conversions[written][place] for place in set(read))
    layouts = boundary.layouts
    return ChosenLayout(boundary, layouts[written], tuple(layouts[place] for place in read), total)


class BoundaryReader:
    """Reads boundaries off the nodes of a network; bursts of equal layers are counted once."""

    def __init__(self, arch: Architecture, nodes: dict[str, tuple[LayerAnswer, ...]]) -> None:
        self._arch, self._nodes = arch, nodes
        self._known: dict[tuple[int, str, tuple[Layout, ...]], tuple[int, ...]] = {}

    def boundaries(self, feeds: list[Feed]) -> tuple[list[Boundary], list[tuple[str, str, str]]]:
        """Return the boundaries in order of their producers, and the feeds that are none, each with its reason."""
        left_out: list[tuple[str, str, str]] = []
        readers: dict[str, list[tuple[str, str]]] = {}
        for feed in feeds:
            reason = self._reason(feed)
            if reason:
                left_out.append((feed.producer, feed.consumer, reason))
            else:
                readers.setdefault(feed.producer, []).append((feed.consumer, feed.tensor))
        found: list[Boundary] = []
        for producer, uses in readers.items():
            try:
                found.append(self._boundary(producer, uses))
            except BudgetError as error:
                left_out += [(producer, consumer, error.mistakes[0].what) for consumer, _ in uses]
        return found, left_out

    def _reason(self, feed: Feed) -> str:
        """Return why a feed is no boundary; "" for one that is."""
        producer, consumer = feed.producer, feed.consumer
        for name in (producer, consumer):
            nests = self._nodes.get(name, ())
            if len(nests) != 1:
                return f"{name} is {f'{len(nests)} loop nests' if nests else 'a view, or has no workload'}"
            if nests[0].result.best is None:
                return f"{name} has no mapping"
        if not feed.tensor:
            return feed.reason
        workload, shape = self._nodes[consumer][0].layer.workload, self._output(producer).shape
        read = workload.tensor(feed.tensor).shape
        if len(read) == len(shape) and all(a >= b for a, b in zip(read, shape, strict=True)):
            return ""
        return f"{consumer} reads {feed.tensor} in {_axes(read)}, and {producer} writes {_axes(shape)}"

    def placed(self, edges: Iterable[Edge]) -> list[Feed]:
        """Return the operands that hand-written edges are: the ones they name, else the operand that alone can be read
        from the producer, else, where as many edges as operands are left, these in the order of the edges."""
        left: dict[str, list[Feed]] = {}
        for producer, consumer, tensor in edges:
            left.setdefault(consumer, []).append(Feed(producer, consumer, tensor))
        return [feed for consumer, own in left.items() for feed in self._placed(consumer, own)]

    def _placed(self, consumer: str, feeds: list[Feed]) -> list[Feed]:
        nests = self._nodes.get(consumer, ())
        if len(nests) != 1:
            return feeds
        reads = dict.fromkeys(access.tensor for access in nests[0].layer.workload.statements[0].reads)
        named = {feed.tensor for feed in feeds}
        free = [name for name in reads if name not in named]
        open_feeds = [feed for feed in feeds if not feed.tensor]
        in_order = dict(zip(map(id, open_feeds), free, strict=True)) if len(open_feeds) == len(free) else {}
        found: list[Feed] = []
        for feed in feeds:
            fitting = [name for name in free if not self._reason(feed._replace(tensor=name))]
            several = f"{listing(fitting)} of {consumer} can be what {feed.producer} writes"
            reason = f"{several}: give (producer, consumer, tensor)" if fitting else self._unfit(feed)
            if feed.tensor:
                found.append(feed)
            elif len(fitting) == 1 and not in_order:
                found.append(feed._replace(tensor=fitting[0]))
            else:
                found.append(feed._replace(tensor=in_order.get(id(feed), ""), reason=reason))
        return found

    def _unfit(self, feed: Feed) -> str:
        if len(self._nodes.get(feed.producer, ())) != 1:
            return ""  # told of the producer
        axes = len(self._output(feed.producer).shape)
        return f"{feed.consumer} reads no tensor of {axes} axes that are as long as those of {feed.producer}"

    def _output(self, node: str) -> Tensor:
        workload = self._nodes[node][0].layer.workload
        return workload.tensor(workload.statements[0].target.tensor)

    def _boundary(self, producer: str, readers: list[tuple[str, str]]) -> Boundary:
        output = self._output(producer)
        burst_bits = bursts_of(self._arch).bits
        layouts = candidates(len(output.shape), burst_bits // output.bits)
        sizes = [-(-layout.elements(output.shape) * output.bits // burst_bits) for layout in layouts]
        conversions = tuple(
            tuple(0 if one == other else sizes[one] + sizes[other] for other in range(len(layouts)))
            for one in range(len(layouts))
        )
        consumers = tuple(self._use(node, tensor, layouts) for node, tensor in readers)
        return Boundary(self._use(producer, output.name, layouts), consumers, layouts, conversions)

    def _use(self, node: str, tensor: str, layouts: tuple[Layout, ...]) -> Use:
        (answer,) = self._nodes[node]
        key = id(answer), tensor, layouts
        if key not in self._known:
            workload, best, cost = answer.layer.workload, answer.result.best, answer.result.cost
            counted = bursts_of_layouts(workload, self._arch, best, cost, workload.tensor(tensor), layouts)
            self._known[key] = tuple(each.bursts for each in counted)
        return Use(node, tensor, self._known[key])


def _axes(shape: tuple[int, ...]) -> str:
    return f"{len(shape)} axes ({' x '.join(map(str, shape))})"


def solved(boundaries: list[Boundary], time_limit_s: float) -> tuple[tuple[ChosenLayout, ...], int, str]:
    """Return the best layouts, what no choice goes below, and "OPTIMAL" or "FEASIBLE".

    Values are added up again in integers from the layouts that CP-SAT chose. Raises BudgetError (PM475) where it found
    none in time.
    """
    model = _Model(boundaries)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        if status == cp_model.MODEL_INVALID:
            raise SolverError(Mistake("PM590", f"the model of layouts is invalid: {model.model.validate()}"))
        what = f"no choice of layouts was found in {time_limit_s:.3g} s"
        raise BudgetError(Mistake("PM475", what, "A longer time limit helps."))
    chosen = model.chosen(solver)
    total = sum(each.bursts for each in chosen)
    if status == cp_model.OPTIMAL and solver.objective_value == total:
        return chosen, total, "OPTIMAL"
    return chosen, min(total, int(solver.best_objective_bound)), "FEASIBLE"


class _Model:
    """One literal per layout of a producer, of a consumer, and of a conversion."""

    def __init__(self, boundaries: list[Boundary]) -> None:
        self.model = cp_model.CpModel()
        self._boundaries = boundaries
        self._written: list[list[cp_model.IntVar]] = []
        self._read: list[list[list[cp_model.IntVar]]] = []
        costs: list[cp_model.LinearExprT] = []
        for number, each in enumerate(boundaries):
            written = self._one_of(each, f"{number} written")
            reads = [self._one_of(each, f"{number} read {place}") for place in range(len(each.consumers))]
            self._written.append(written)
            self._read.append(reads)
            for use, literals in zip((each.producer, *each.consumers), (written, *reads), strict=True):
                costs += [bursts * literal for bursts, literal in zip(use.bursts, literals, strict=True)]
            costs += self._conversions(each, number, written, reads)
        self.model.minimize(sum(costs))

    def _one_of(self, boundary: Boundary, name: str) -> list[cp_model.IntVar]:
        literals = [self.model.new_bool_var(f"{name} {layout}") for layout in boundary.layouts]
        self.model.add_exactly_one(literals)
        return literals

    def _conversions(
        self, boundary: Boundary, number: int, written: list[cp_model.IntVar], reads: list[list[cp_model.IntVar]]
    ) -> list[cp_model.LinearExprT]:
        """Return the costs of conversions, each of which is paid once, for however many consumers."""
        costs: list[cp_model.LinearExprT] = []
        for one, row in enumerate(boundary.conversions):
            for other, bursts in enumerate(row):
                if one != other:
                    literal = self.model.new_bool_var(f"{number} from {one} to {other}")
                    for read in reads:
                        self.model.add_bool_or([literal, ~written[one], ~read[other]])
                    costs.append(bursts * literal)
        return costs

    def chosen(self, solver: cp_model.CpSolver) -> tuple[ChosenLayout, ...]:
        """Return the layouts of the solution, and their bursts in integers."""
        found: list[ChosenLayout] = []
        for each, written, reads in zip(self._boundaries, self._written, self._read, strict=True):
            place = next(n for n, literal in enumerate(written) if solver.boolean_value(literal))
            places = [next(n for n, one in enumerate(own) if solver.boolean_value(one)) for own in reads]
            found.append(chosen_layout(each, place, tuple(places)))
        return tuple(found)


@dataclass(frozen=True, slots=True, repr=False)
class LayoutChoice(Shown):
    """The layouts of a network's boundaries. status: "OPTIMAL", or "FEASIBLE" with the bound that was reached.

    bursts: of all boundaries, conversions included; bound: no choice has fewer. alone: (name, bursts if every boundary
    had the layout of this name), for names that all boundaries know. left_out: edges of the network that are no
    boundary, and why. burst_bits: of one burst.
    """

    status: str
    chosen: tuple[ChosenLayout, ...]
    bursts: int
    bound: int
    burst_bits: int
    alone: tuple[tuple[str, int], ...]
    left_out: tuple[tuple[str, str, str], ...]


@answers_in_words
def choose_layouts(
    answer: NetworkAnswer,
    edges: Iterable[tuple[str, str] | tuple[str, str, str]] | None = None,
    *,
    time_limit_s: float = TUNING.layouts_s,
) -> LayoutChoice:
    """Return the layouts of the tensors between a network's nodes with which its mappings move the fewest bursts.

    answer: what `explore_network` returned, on a machine whose outermost level states `burst_bits`. edges: (producer,
    consumer) names of nodes, or (producer, consumer, tensor of the consumer), instead of the network's own; built-in
    networks have none, and their layers are the nodes. A model's file says which operand an edge is. A pair by hand is
    the only operand of that shape, or, where as many pairs as operands are given, these in their order.
    Candidates: NCHW, NHWC and NCHW with blocks of a burst for tensors of four axes, every order of up to three axes,
    else the last and the second axis as the fastest. An edge is a boundary where the producer is one loop nest and the
    consumer reads a tensor of as many axes, none shorter (padding is part of what is read).
    Raises OptionError for edges between unknown nodes, for an answer in which neighbours run together (PM478: what
    stays on chip has no layout), and as `burst_counts` does.
    """
    answer = expected_kind(answer, NetworkAnswer, "the answer")
    if any(each.is_together for each in answer.groups):
        hint = "What stays on chip has no layout there. Ask explore_network without fuse=True."
        raise OptionError(Mistake("PM478", "layouts of an answer whose neighbours run together", hint))
    burst_bits = bursts_of(answer.arch).bits
    nodes = _nodes(answer)
    told = None if edges is None else _checked(edges, nodes)
    expected_seconds(time_limit_s)
    reader = BoundaryReader(answer.arch, nodes)
    found, left_out = reader.boundaries(_feeds(answer.network, told, reader))
    chosen, bound, status = solved(found, time_limit_s)
    total = sum(each.bursts for each in chosen)
    return LayoutChoice(status, chosen, total, bound, burst_bits, _alone(found), tuple(left_out))


def _nodes(answer: NetworkAnswer) -> dict[str, tuple[LayerAnswer, ...]]:
    net: Network = answer.network
    if not net.mapped or not answer.layers:
        return {each.layer.name: (each,) for each in answer.layers}
    return {node: tuple(answer.layers[number] for number in own) for node, own in net.mapped}


def _feeds(net: Network, told: list[Edge] | None, reader: BoundaryReader) -> list[Feed]:
    """Return the operands that the caller's edges are, or the network's own: as its model tells, else by hand."""
    edges = [(*pair, "") for pair in net.edges] if told is None else told
    known: dict[tuple[str, str], list[Feed]] = {}
    for feed in net.feeds:
        known.setdefault((feed.producer, feed.consumer), []).append(feed)
    by_model = [each for each in edges if net.feeds and (told is None or each[:2] in known) and not each[2]]
    found = [feed for one, two, _ in by_model for feed in known.get((one, two), [Feed(one, two, "")])]
    return [*found, *reader.placed(each for each in edges if each not in by_model)]


def _checked(edges: object, nodes: dict[str, tuple[LayerAnswer, ...]]) -> list[Edge]:
    """Return the caller's edges as names: of nodes, and of a tensor or ""."""
    told = shown(edges)
    if not isinstance(edges, Iterable) or isinstance(edges, str | bytes):
        raise OptionError(Mistake("PM474", f"the edges are {told}", "Expected pairs of names: (producer, consumer)."))
    pairs: list[Edge] = []
    for pair in cast("Iterable[object]", edges):
        names: list[object] = list(pair) if is_list(pair) else []
        if len(names) not in (2, 3):
            hint = "Expected (producer, consumer), or (producer, consumer, tensor)."
            raise OptionError(Mistake("PM474", f"an edge is {shown(pair)}", hint))
        for name in names[:2]:
            if not isinstance(name, str) or name not in nodes:
                hint = f"Nodes: {', '.join(list(nodes)[:8])}{', ...' if len(nodes) > 8 else ''}."
                raise OptionError(Mistake("PM474", f"the edges name {shown(name)}, which is no mapped node", hint))
        pairs.append((str(names[0]), str(names[1]), _tensor(nodes[str(names[1])], names[2]) if names[2:] else ""))
    return pairs


def _tensor(nests: tuple[LayerAnswer, ...], name: object) -> str:
    """Return the name of a tensor that a node reads."""
    reads = {access.tensor for each in nests for access in each.layer.workload.statements[0].reads}
    if not isinstance(name, str) or name not in reads:
        hint = f"It reads: {', '.join(sorted(reads))}."
        raise OptionError(
            Mistake("PM474", f"the edges name {shown(name)}, which is no tensor that the node reads", hint)
        )
    return name


def _alone(boundaries: list[Boundary]) -> tuple[tuple[str, int], ...]:
    """Return (layout, bursts) of each layout that all boundaries have, where nothing else is used."""
    names = [tuple(map(str, each.layouts)) for each in boundaries]
    shared = [name for name in (names[0] if names else ()) if all(name in own for own in names)]
    found: list[tuple[str, int]] = []
    for name in shared:
        total = 0
        for each, own in zip(boundaries, names, strict=True):
            place = own.index(name)
            total += each.producer.bursts[place] + sum(use.bursts[place] for use in each.consumers)
        found.append((name, total))
    return tuple(found)
