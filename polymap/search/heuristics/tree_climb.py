"""prototype"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
from numpy.typing import NDArray

from dataclasses import replace
from polymap.costmodel import evaluate
from polymap.costmodel.tables.cost_arrays import _by_arrays, _Figures
from polymap.costmodel.tables.cost_columns import batch_of
from polymap.ir import Architecture, Compute, Mapping, MappingNode, MemoryLevel, Fanout, Spatial, Storage, Temporal, Workload, PolymapError
from polymap.search.heuristics.near_tiles import rows_near
from polymap.search.heuristics.genome import genome_space, random_genome, tree_of_genome
from polymap.search.objective import exact_score
from polymap.search.problem import Goal, Objective

Node = Temporal | Spatial | Storage


def cost_values(workload, arch, objective, costs):
    powers = objective.goal.powers
    if powers:
        value = np.ones(len(costs.legal))
        if powers.energy: value = value * costs.energy_pj ** powers.energy
        if powers.cycles: value = value * costs.latency_cycles.astype(float) ** powers.cycles
        return value
    match objective.goal:
        case Goal.TRAFFIC:
            rows = [row for row in costs.traffic if row.level == objective.level]
            return sum((row.reads + row.writes).astype(float) * workload.tensor(row.tensor).bits for row in rows)
        case Goal.CAPACITY:
            return dict(costs.occupancy_bits)[objective.level].astype(float)
        case Goal.WEIGHTED:
            return sum(float(w) * cost_values(workload, arch, part, costs) for w, part in objective.parts)
    raise AssertionError


class TreeClimber:
    def __init__(self, workload, arch, objective, seed=0):
        self.workload, self.arch, self.objective = workload, arch, objective
        self.full = arch
        timed = objective.goal.powers and objective.goal.powers.cycles or any(l.leak_pj_per_cycle for l in arch.levels) or objective.goal is Goal.WEIGHTED
        if not timed:
            self.arch = arch = replace(arch, nodes=tuple(replace(n, bandwidth_bits_per_cycle=None, read_bandwidth_bits_per_cycle=None, write_bandwidth_bits_per_cycle=None) if isinstance(n, MemoryLevel) else n for n in arch.nodes))
        self.rng = Random(seed)
        self.nprng = np.random.default_rng(seed)
        self.extents = workload.extents()
        self.dims = [d for d in workload.statements[0].dims if self.extents[d] > 1]
        self.levels = {l.name: i for i, l in enumerate(arch.levels)}
        self.group_of = {}
        below = 0
        self.fan_number = {}
        for node in arch.nodes:
            if isinstance(node, MemoryLevel): below += 1
            elif isinstance(node, Fanout):
                self.fan_number[node.name] = len(self.fan_number)
                self.group_of[node.name] = below
        self.tensors = {t.name: t for t in workload.tensors}
        self.caps = [(l.name, l.capacity_bits, l.buffering) for l in arch.levels if l.capacity_bits is not None]
        self.best = None
        self.space = genome_space(workload, arch, divide=False)
        self.scored = 0
        self.rounds = 0
        self.dims_of = {}
        st = workload.statements[0]
        for acc in (st.target, *st.reads):
            self.dims_of.setdefault(acc.tensor, []).extend(e.coefficients() for e in acc.index)

        self.window_dims = {d for axes in self.dims_of.values() for ax in axes if len(ax) > 1 for d in ax}

    def know(self, mapping, value):
        if self.best is None or value < self.best[1]:
            self.best = mapping, value

    # tree <-> nodes
    def split(self, mapping):
        nodes = []
        now = dict(self.extents)
        for n in mapping.nodes:
            if isinstance(n, Storage):
                nodes += [Storage(n.level, (t,)) for t in n.tensors if self.levels[n.level]]
            elif isinstance(n, (Temporal, Spatial)) and n.tile < now[n.dim]:
                now[n.dim] = n.tile
                nodes.append(n)
        return nodes

    def joined(self, nodes):
        out = []
        now = dict(self.extents)
        for n in nodes:
            if isinstance(n, Storage):
                if out and isinstance(out[-1], Storage) and out[-1].level == n.level:
                    out[-1] = Storage(n.level, (*out[-1].tensors, *n.tensors))
                else: out.append(n)
            elif n.tile < now[n.dim]:
                if isinstance(n, Temporal) and out and isinstance(out[-1], Temporal) and out[-1].dim == n.dim:
                    out[-1] = n
                else: out.append(n)
                now[n.dim] = n.tile
        return Mapping((*out, Compute(self.workload.statements[0].name)))

    def widened(self, nodes, count):
        """insert inactive loops"""
        rng = self.rng
        nodes = list(nodes)
        def tile_at(p, d):
            t = self.extents[d]
            for n in nodes[:p]:
                if isinstance(n, (Temporal, Spatial)) and n.dim == d: t = n.tile
            return t
        # spatial
        for f in self.arch.fanouts:
            have = {n.dim for n in nodes if isinstance(n, Spatial) and n.fanout == f.name}
            for d in self.dims:
                if d in have or not f.may_spread(d) or rng.random() > 0.6: continue
                p = self.fan_place(nodes, f)
                nodes.insert(p, Spatial(d, tile_at(p, d), f.name))
        for _ in range(count):
            p = rng.randint(0, len(nodes)); d = rng.choice(self.dims)
            nodes.insert(p, Temporal(d, tile_at(p, d)))
        for d in self.dims:  # a last loop
            if tile_at(len(nodes), d) > 1 or not any(not isinstance(n, Storage) and n.dim == d for n in nodes):
                nodes.append(Temporal(d, 1))
        return nodes

    def fan_place(self, nodes, f):
        g, num = self.group_of[f.name], self.fan_number[f.name]
        lo, hi = 0, len(nodes)
        first = None
        for i, n in enumerate(nodes):
            if isinstance(n, Storage):
                if self.levels[n.level] < g: lo = i + 1
                elif i < hi: hi = i
            elif isinstance(n, Spatial):
                og, onum = self.group_of[n.fanout], self.fan_number[n.fanout]
                if (og, onum) <= (g, num): lo = max(lo, i + 1)
                elif i < hi: hi = i
        hi = max(hi, lo)
        same = [i for i, n in enumerate(nodes) if isinstance(n, Spatial) and self.group_of[n.fanout] == g]
        if same:
            # keep group together
            return min(max(lo, same[0]), same[-1] + 1)
        return self.rng.randint(lo, hi)

    def mutated(self, nodes):
        rng = self.rng
        nodes = list(nodes)
        kind = rng.random()
        if kind < 0.45:  # move a storage
            at = [i for i, n in enumerate(nodes) if isinstance(n, Storage)]
            if not at: return nodes
            i = rng.choice(at); n = nodes.pop(i)
            p = self.storage_place(nodes, n)
            if p is None: return None
            nodes.insert(p, n)
        elif kind < 0.6:  # hold another
            have = {(n.level, n.tensors[0]) for n in nodes if isinstance(n, Storage)}
            free = [(l.name, t.name) for k, l in enumerate(self.arch.levels) if k for t in self.workload.tensors if l.may_hold(t) and (l.name, t.name) not in have]
            if not free: return nodes
            l, t = rng.choice(free); n = Storage(l, (t,))
            p = self.storage_place(nodes, n)
            if p is None: return None
            nodes.insert(p, n)
        elif kind < 0.75:
            at = [i for i, n in enumerate(nodes) if isinstance(n, Storage) and not self.arch.levels[self.levels[n.level]].requires(self.tensors[n.tensors[0]])]
            if not at: return nodes
            nodes.pop(rng.choice(at))
        elif kind < 0.9:  # move a group
            gs = sorted({self.group_of[n.fanout] for n in nodes if isinstance(n, Spatial)})
            if not gs: return nodes
            g = rng.choice(gs)
            ours = [n for n in nodes if isinstance(n, Spatial) and self.group_of[n.fanout] == g]
            rest = [n for n in nodes if n not in ours]
            p = self.fan_place(rest, self.arch.fanouts[self.fan_number[ours[0].fanout]])
            nodes = rest[:p] + ours + rest[p:]
            # tiles out of order possible; fix below
        else:
            at = [i for i, n in enumerate(nodes) if isinstance(n, Temporal)]
            if not at: return nodes
            n = nodes.pop(rng.choice(at))
            nodes.insert(rng.randint(0, len(nodes)), n)
        return self.fixed(nodes)

    def storage_place(self, nodes, node):
        lev = self.levels[node.level]; t = node.tensors[0]
        lo, hi = 0, len(nodes)
        for i, n in enumerate(nodes):
            if isinstance(n, Storage) and n.tensors[0] == t:
                if self.levels[n.level] < lev: lo = i + 1
                else: hi = min(hi, i)
            elif isinstance(n, Spatial):
                if self.group_of[n.fanout] <= lev: lo = i + 1
                else: hi = min(hi, i)
        return self.rng.randint(lo, hi) if lo <= hi else None

    def fixed(self, nodes):
        """recompute tiles from trips per dim order"""
        now = dict(self.extents)
        out = []
        for n in nodes:
            if isinstance(n, Storage): out.append(n); continue
            t = min(n.tile, now[n.dim]); now[n.dim] = t
            out.append(Temporal(n.dim, t) if isinstance(n, Temporal) else Spatial(n.dim, t, n.fanout))
        return out

    # tables
    def descend(self, nodes, rounds, limit=2500):
        """best tiles of the shape; returns (excess, value, nodes)"""
        loops = [i for i, n in enumerate(nodes) if not isinstance(n, Storage)]
        col = {i: k for k, i in enumerate(loops)}
        cols = {d: [col[i] for i in loops if nodes[i].dim == d] for d in self.dims}
        now = np.array([nodes[i].tile for i in loops], dtype=np.int64)
        tree = Mapping((*nodes, Compute(self.workload.statements[0].name)))
        worth = None
        try:
            first = evaluate(self.workload, self.arch, tree)
        except PolymapError:
            return None
        placed = all(v.kind != "placement" for v in first.violations)
        if not placed: return None
        batch = batch_of(self.workload, self.arch, tree, placed=placed)
        if batch is None: return None
        for _ in range(rounds):
            table = self.candidates(nodes, loops, cols, now, limit)
            if worth is None: table = np.concatenate([now[None], table])
            if not len(table): break
            figures = _Figures.like(first, len(table))
            left = _by_arrays(batch, table, figures)
            costs = figures.arrays(first)
            self.scored += len(table)
            excess = np.zeros(len(table))
            self.uncounted = getattr(self, 'uncounted', 0) + len(left)
            occ = dict(costs.occupancy_bits)
            for name, cap, buf in self.caps:
                if name in occ: excess += np.maximum(occ[name].astype(float) * buf / cap - 1, 0)
            value = cost_values(self.workload, self.arch, self.objective, costs)
            bad = (excess == 0) & ~costs.legal
            excess[bad] = np.inf
            excess[left] = np.inf
            order = np.lexsort((value, excess))
            k = order[0]
            new = (float(excess[k]), float(value[k]))
            if worth is not None and new >= worth:
                if new == worth: now = table[k]
                break
            worth, now = new, table[k]
        if worth is None: return None
        out = list(nodes)
        for k, i in enumerate(loops):
            n = out[i]; t = int(now[k])
            out[i] = Temporal(n.dim, t) if isinstance(n, Temporal) else Spatial(n.dim, t, n.fanout)
        return (*worth, out)

    def candidates(self, nodes, loops, cols, now, limit):
        chains = {}
        for d in self.dims:
            tiles = tuple(int(x) for x in now[cols[d]])
            near = rows_near(self.extents[d], tiles)
            spatial = sum(isinstance(nodes[loops[c]], Spatial) for c in cols[d])
            most = self.CHAINS[(d in self.window_dims) + (spatial >= 2)]
            if len(near) > most: near = [near[k] for k in sorted(self.rng.sample(range(len(near)), most))]
            chains[d] = np.array([tiles, *near], dtype=np.int64)
        singles = []
        for d in self.dims:
            t = np.repeat(now[None], len(chains[d]) - 1, axis=0)
            t[:, cols[d]] = chains[d][1:]
            singles.append(t)
        table = np.concatenate(singles)
        good = self.fits(nodes, loops, cols, table)
        out = [table[good]]
        bad = table[~good]
        # pairs: an infeasible one with a partner, and any two
        rows = []
        def partners(base, count):
            if not len(base): return
            pick = base[self.nprng.integers(0, len(base), count)]
            ds = self.nprng.integers(0, len(self.dims), count)
            for k, d in enumerate(self.dims):
                w = np.flatnonzero(ds == k)
                if len(w):
                    ch = chains[d][self.nprng.integers(0, len(chains[d]), len(w))]
                    pick[w[:, None], np.array(cols[d])[None, :]] = ch
            ok = self.fits(nodes, loops, cols, pick)
            rows.append(pick[ok])
        partners(bad, 8000)
        partners(table, 3000)
        left = max(0, limit - len(out[0]))
        if rows:
            a = rows[0]; b = rows[-1]
            a = a[: max(left * 2 // 3, left - len(b))]
            out += [a, b[: left - len(a)]]
        return np.unique(np.concatenate(out), axis=0)

    def fits(self, nodes, loops, cols, table):
        ok = np.ones(len(table), dtype=bool)
        col = {i: k for k, i in enumerate(loops)}
        prev = {}
        trips = {}
        tile = {d: np.full(len(table), self.extents[d]) for d in self.extents}
        room = {name: 0 for name, _, _ in self.caps}
        for i, n in enumerate(nodes):
            if isinstance(n, Storage):
                if n.level in room:
                    t = n.tensors[0]; size = 1
                    for axis in self.dims_of[t]:
                        if len(axis) == 1: size = size * tile[next(iter(axis))]
                        elif axis:
                            span = 1; prod_ = 1
                            for d, c in axis.items():
                                span = span + abs(c) * (tile[d] - 1); prod_ = prod_ * tile[d]
                            size = size * np.minimum(span, prod_)
                    room[n.level] = room[n.level] + size * self.tensors[t].bits
            else:
                new = table[:, col[i]]
                if isinstance(n, Spatial):
                    trips[n.fanout] = trips.get(n.fanout, 1) * -(-tile[n.dim] // new)
                tile[n.dim] = new
        for f in self.arch.fanouts:
            if f.name in trips: ok &= trips[f.name] <= f.size
        for name, cap, buf in self.caps:
            ok &= room[name] * buf <= cap
        return ok

    def respread(self, nodes):
        rng = self.rng
        gs = sorted(set(self.group_of.values()))
        if not gs: return None
        g = rng.choice(gs)
        ours = [f for f in self.arch.fanouts if self.group_of[f.name] == g]
        one = rng.choice(ours)
        old = {}
        now = dict(self.extents)
        for n in nodes:
            if isinstance(n, Storage): continue
            if isinstance(n, Spatial) and n.fanout == one.name: old[n.dim] = -(-now[n.dim] // n.tile)
            now[n.dim] = n.tile
        rest = [n for n in nodes if not (isinstance(n, Spatial) and n.fanout == one.name)]
        free = [d for d in self.dims if one.may_spread(d)]
        if not free: return None
        new = {}
        room = one.size
        picks = rng.sample(free, min(len(free), rng.choice((1, 1, 2, 2, 3))))
        for k, d in enumerate(picks):
            most = min(room, self.extents[d])
            if most < 2: break
            c = most if k == len(picks) - 1 and rng.random() < 0.7 else rng.randint(2, most)
            n = self.extents[d]; c = -(-n // -(-n // c))
            new[d] = c; room //= c
        p = self.fan_place(rest, one)
        # outer loops: the tile at p stays; inner tiles are divided
        out = rest[:p]
        now = dict(self.extents)
        for n in out:
            if not isinstance(n, Storage): now[n.dim] = n.tile
        for d, c in new.items():
            t = -(-now[d] // c)
            out.append(Spatial(d, t, one.name)); now[d] = t
        return self.fixed(out + rest[p:])

    def wide(self, nodes):
        nodes = self.split(self.joined(nodes))
        loops = sum(not isinstance(n, Storage) for n in nodes)
        return self.widened(nodes, max(3, min(12, 20 - loops)))

    CHAINS = (80, 30, 15)
    DRAWN = 6
    GENOMES = 40
    IDLE = 18
    PLAIN = 0.3
    RUN = 40
    HEAT = 0.05
    FAR = 1.15
    hints = ()
    classes = ()

    def spread_as(self, nodes, counts):
        """nodes with sibling counts [class][dim]"""
        names = [n.name for n in self.arch.fanouts]
        alld = self.workload.statements[0].dims
        rest = [n for n in nodes if not isinstance(n, Spatial)]
        alldims = [d.name for d in self.workload.dims]
        for one, row in zip(self.classes, counts):
            fans = [self.arch.fanouts[f] for f in one.fanouts]
            plan = self.deal(fans, {d: c for d, c in zip(alldims, row) if c > 1})
            if plan is None: return None
            for f, share in zip(fans, plan):
                if not share: continue
                p = self.fan_place(rest, f)
                now = dict(self.extents)
                for n in rest[:p]:
                    if not isinstance(n, Storage): now[n.dim] = n.tile
                new = []
                for d, c in share.items():
                    t = -(-now[d] // c)
                    new.append(Spatial(d, t, f.name)); now[d] = t
                rest = self.fixed(rest[:p] + new + rest[p:])
        return rest

    def deal(self, fans, want):
        """factors per fanout whose products are at least the counts"""
        dims = sorted(want, key=lambda d: -want[d])
        def go(k, room):
            if k == len(dims): return [{} for _ in fans]
            d = dims[k]; c = want[d]
            options = []
            if len(fans) == 1:
                options = [(c,)] if fans[0].may_spread(d) else []
            else:
                firsts = sorted({-(-c // x) for x in range(1, c + 1)}, reverse=True)
                options = [(a, -(-c // a)) for a in firsts]
                options.sort(key=lambda o: (o[0] * o[1], o))
                options = [o + (1,) * (len(fans) - 2) for o in options if all(x == 1 or f.may_spread(d) for x, f in zip(o, fans))]
            for o in options:
                if all(x <= r for x, r in zip(o, room)):
                    got = go(k + 1, [r // x for x, r in zip(o, room)])
                    if got is not None:
                        for x, g in zip(o, got):
                            if x > 1: g[d] = x
                        return got
            return None
        return go(0, [f.size for f in fans])

    def wide(self, nodes):
        nodes = self.split(self.joined(nodes))
        loops = sum(not isinstance(n, Storage) for n in nodes)
        return self.widened(nodes, max(3, min(12, 20 - loops)))

    def begin(self):
        self.runs = getattr(self, 'runs', -1) + 1
        self.at = 0
        self.tabu = set()
        self.fixed_spread = False
        self.idle = 0
        if self.hints and self.runs % 3:
            # spread 0 from best, spread 0 from anywhere, spread 1 ...
            h = self.hints[(self.runs // 3) % len(self.hints)]
            if self.runs % 3 == 1:
                starts = [self.split(self.best[0])]
            else:
                starts = [self.split(tree_of_genome(self.space, random_genome(self.space, self.rng))) for _ in range(self.GENOMES)]
            scored = []
            for k, one in enumerate(starts):
                one = self.spread_as(one, h)
                sc = None if one is None else exact_score(self.workload, self.arch, self.objective, self.joined(one))
                if sc is not None: scored.append((sc.excess, sc.value, k, one))
            if scored:
                start = min(scored)[3]
                f = self.descend(self.wide(start), 1, 800)
                if f is not None:
                    self.fixed_spread = True
                    self.now = self.split(self.joined(f[2])); self.nowworth = f[:2]
                    self.heat = 0.1
                    return
        self.now = self.split(self.best[0]); self.nowworth = (0.0, float(self.best[1])); self.heat = self.HEAT

    def step(self):
        rng = self.rng
        self.rounds += 1
        if getattr(self, 'at', self.RUN) >= self.RUN or self.idle >= self.IDLE: self.begin()
        self.idle += 1
        self.at += 1
        heat = self.heat * (1 - self.at / self.RUN) ** 2
        drawn = []
        for k in range(self.DRAWN):
            nodes = self.now
            for _ in range(rng.choice((0, 1, 1, 1, 2)) if k == 0 else rng.choice((1, 1, 2, 2, 3))):
                m = self.respread(nodes) if rng.random() < 0.3 and not self.fixed_spread else self.mutated(nodes)
                if m is not None: nodes = m
            if k == 0 and self.DRAWN > 1 and rng.random() < self.PLAIN: drawn = [(0, 0, 0, nodes)]; break
            tree = self.joined(nodes)
            if tree in self.tabu: continue
            self.tabu.add(tree)
            sc = exact_score(self.workload, self.arch, self.objective, tree)
            if sc is not None: drawn.append((max(0.0, float(sc.excess) - self.nowworth[0]), float(sc.value), k, nodes))
        if not drawn: return False
        nodes = min(drawn)[3]
        goal = (self.nowworth[0], self.nowworth[1] * (1 + heat))
        found = self.descend(self.wide(nodes), 1, 600)
        for _ in range(2):
            if found is None or found[0] > goal[0] + 0.5 or (found[0] <= goal[0] and found[1] > goal[1] * self.FAR): return False
            if found[:2] <= goal: break
            f = self.descend(self.wide(found[2]), 1, 1000)
            if f is None or f[:2] >= found[:2]: break
            found = f
        if found is None: return False
        excess, value, nodes = found
        if (excess, value) > goal: return False
        if excess == 0 and value < float(self.best[1]):
            fails = 0
            while fails < 2:
                f = self.descend(self.wide(nodes), 2)
                if f is None or f[0] > 0 or f[1] >= value: fails += 1
                else: _, value, nodes = f
        if (excess, value) < self.nowworth: self.idle = 0
        self.now, self.nowworth = self.split(self.joined(nodes)), (excess, value)
        if excess == 0 and value < float(self.best[1]):
            mapping = self.joined(nodes)
            s = exact_score(self.workload, self.full, self.objective, mapping)
            if s is not None and not s.excess and s.value < self.best[1]:
                self.best = mapping, s.value
                return True
        return False
