"""A program made in tiles of what it ends in computes what the program computes, and makes again what tiles share."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from math import prod
from time import process_time

import pytest

import polymap as pm
from polymap.explore import provers
from polymap.ir import Access, Apply, Convert, Expression, Operator, Read, Statement, Workload
from polymap.resources import never
from polymap.search.fused_trees import FusedTrees, Part
from polymap.search.legs import Interface
from polymap.search.options import Options
from polymap.search.programs import Tiling, best_tilings, in_lines, in_tiles, made_again, makes_rows_again
from polymap.search.provers import read_question
from polymap.search.refunds import bound_by_refunds
from polymap.workload.document import workload_from_document, workload_to_document
from tests.times import few
from tests.unit.search.run.test_nest_after_nest import begun, buffer

POOL = ("T[k,y,x] += I[c,y+r,x] * W[k,c,r]", "G[k,y,x] = T[k,y,x] * A[k]", "O[k,v,w] max= G[k,2*v+a,2*w+b]")
PAIR = ("T[y] += I[y+r] * W[r]", "G[y] = T[y] * A[y]", "O[z,v] += G[2*v+a] * V[z,a]")
THREE = ("T[y] += I[y+r] * W[r]", "U[v] += T[2*v+a] * V[a]", "O[u] += U[u+b] * X[b]")
OF_POOL = {"k": 2, "c": 2, "r": 2, "y": 6, "x": 4, "v": 3, "w": 2, "a": 2, "b": 2}
OF_PAIR = {"y": 13, "r": 2, "z": 2, "v": 6, "a": 3}
OF_BACK = {"y": 13, "r": 2, "v": 6, "a": 3}
OF_THREE = {"y": 13, "r": 2, "v": 6, "a": 3, "u": 4, "b": 3}

Element = tuple[str, tuple[int, ...]]


def touched(access: Access, point: Mapping[str, int]) -> Element:
    return access.tensor, tuple(form.evaluate(point) for form in access.index)


def value_of(expression: Expression, values: list[int]) -> int:
    match expression:
        case Read(number):
            return values[number]
        case Apply("*", arguments):
            return prod(value_of(each, values) for each in arguments)
        case Convert(_, value):
            return value_of(value, values)
        case _:
            raise AssertionError(expression)


def points(statement: Statement, extents: Mapping[str, int]) -> Iterator[dict[str, int]]:
    for point in product(*(range(extents[name]) for name in statement.dims)):
        yield dict(zip(statement.dims, point, strict=True))


def results(work: Workload) -> dict[Element, int]:
    """Return what the last statement of a program computes, from inputs that depend on their place alone."""
    rng, known = random.Random("inputs"), dict[Element, int]()
    for name in sorted({each.tensor for one in work.statements for each in one.reads}):
        tensor = work.tensor(name)
        if not tensor.temporary:
            known |= {(name, place): rng.randrange(-9, 10) for place in product(*map(range, tensor.shape))}
    for each in work.statements:
        for point in points(each, work.extents()):
            value = value_of(each.expression, [known[touched(access, point)] for access in each.reads])
            at = touched(each.target, point)
            if each.operator is Operator.ADD:
                value += known.get(at, 0)
            elif each.operator is Operator.MAX:
                value = max(value, known.get(at, value))
            known[at] = value
    return {at: value for at, value in known.items() if at[0] == work.statements[-1].target.tensor}


@pytest.mark.parametrize(
    ("texts", "sizes", "last", "tile", "more"),
    [
        (POOL, OF_POOL, "v", 1, 0),
        (POOL, OF_POOL, "w", 1, 0),
        (PAIR, OF_PAIR, "v", 1, 5 * (2 + 1)),  # of T two instances a row
        (PAIR, OF_PAIR, "v", 3, 1 * (2 + 1)),
        (THREE, OF_THREE, "u", 2, 5 * 2 + 2 * 3),  # five rows of T, two rows of U
    ],
)
def test_tiles_compute_what_the_program_computes(
    texts: tuple[str, ...], sizes: dict[str, int], last: str, tile: int, more: int
) -> None:
    work = pm.program(list(texts), sizes=sizes, temporary=[text[0] for text in texts[:-1]], bits=8)
    cut = in_tiles(work, last, tile)
    assert cut is not None
    assert results(cut) == results(work)
    assert made_again(work, cut) == more
    assert {each.dims[0] for each in cut.statements} == {last if tile == 1 else f"{last}_by_{tile}"}


BLOCKS = (  # two windows one after the other, each of rows and columns
    "T[k,y,x] = I[y,x] * W[k]",
    "U[v,w] += T[k,v+a,w+b] * V[k,a,b]",
    "P[k,v,w] = U[v,w] * X[k]",
    "O[q,p] += P[k,q+a,p+b] * Z[k,a,b]",
)
OF_BLOCKS = {"k": 2, "y": 8, "x": 7, "v": 6, "w": 6, "a": 3, "b": 2, "q": 4, "p": 5}


def blocks() -> Workload:
    return pm.program(list(BLOCKS), sizes=OF_BLOCKS, temporary=["T", "U", "P"], bits=8)


def test_runs_in_tiles_of_rows_and_columns_compute_what_the_program_computes() -> None:
    work = blocks()
    first = in_tiles(work, "v", 3, (0, 2))
    assert first is not None
    both = in_tiles(first, "w", 2, (0, 2))
    assert both is not None
    every = in_tiles(both, "q", 2, (2, 4))
    assert every is not None
    assert results(first) == results(both) == results(every) == results(work)
    assert made_again(work, first) == 2 * 2 * 7  # k, rows of T, columns
    assert made_again(work, both) == 2 * (2 * 5 * 3 * 3 - 8 * 7)
    assert made_again(both, every) == 2 * 2 * 6
    assert [each.dims[:2] for each in every.statements[:2]] == [("w_by_2", "v_by_3")] * 2
    assert all(each.dims[0] == "q_by_2" for each in every.statements[2:])
    assert in_tiles(work, "q", 2, (1, 4)) is not None  # T through the outermost level
    assert in_tiles(work, "k", 1, (0, 2)) is None


def test_tilings_move_least_of_those_with_room() -> None:
    work = blocks()
    for words in (12, 30, 60, 200):
        found = best_tilings(work, 8 * words, Fraction(0))
        assert {ends for ends in found if ends[1] - ends[0] == 1} == {(0, 1), (1, 2), (2, 3), (3, 4)}
        assert found[0, 1].moved == 8 * (2 * 8 * 7 + 8 * 7 + 2)
        for ends, each in found.items():
            cut = each.of(work, ends)
            assert (cut == work) == (not each.tiles)
            assert cut is not None
            assert each.again == made_again(work, cut)
    least = best_tilings(work, 8 * 200, Fraction(0))[0, 2]  # all of it stays
    assert least.moved == 8 * (8 * 7 + 2 + 2 * 3 * 2 + 6 * 6)
    dear = best_tilings(work, 8 * 30, Fraction(10**6))[0, 2]
    assert dear.again <= best_tilings(work, 8 * 30, Fraction(0))[0, 2].again
    assert best_tilings(work, 8, Fraction(0)).keys() == {(0, 1), (1, 2), (2, 3), (3, 4)}


def inverted_blocks(many: int, rows: int, channels: int, inner: int) -> Workload:
    """Return blocks of pointwise, depthwise 3x3, pointwise; the last result has so many rows and columns."""
    texts, sizes = list[str](), {"r": 3, "s": 3, "c0": channels}
    planes = ["y,x", *(f"v{at},w{at}" for at in range(many))]
    for at in range(many):
        before, own = planes[at : at + 2]
        texts += [
            f"T{at}[e{at},{before}] += I{at}[c{at},{before}] * A{at}[e{at},c{at}]",
            f"D{at}[e{at},{own}] += T{at}[e{at},v{at}+r,w{at}+s] * K{at}[e{at},r,s]",
            f"I{at + 1}[c{at + 1},{own}] += D{at}[e{at},{own}] * P{at}[c{at + 1},e{at}]",
        ]
        extent = rows + 2 * (many - 1 - at)
        sizes |= {f"e{at}": inner, f"c{at + 1}": channels, f"v{at}": extent, f"w{at}": extent}
    sizes |= {"y": rows + 2 * many, "x": rows + 2 * many}
    passed = [f"{name}{at}" for at in range(many) for name in ("T", "D", "I") if name != "I" or at]
    return pm.program(texts, sizes=sizes, temporary=passed, bits=8)


def below_tiles(work: Workload, words: int, tiling: Tiling) -> Part | None:
    """Return the tree below the loops over the tiles of all statements."""
    cut = tiling.of(work, (0, len(work.statements)))
    assert cut is not None
    options = Options("traffic:DRAM", "divide", time_limit_s=60, clock=process_time)
    asked, _ = read_question(work, buffer(words), options, provers)
    trees, interface = FusedTrees(asked, cut, asked.objective, divides=True), Interface.of(cut)
    assert interface is not None
    return trees.below_tile_loops(cut, interface, never)


def test_a_run_in_tiles_moves_no_more_than_estimated_below_its_loops() -> None:
    work, words = inverted_blocks(1, 28, 24, 192), 2_486
    least = best_tilings(work, 8 * words, Fraction(0))[0, 3]
    found = below_tiles(work, words, least)
    assert found is not None
    assert least.moved == 8 * 348_288  # tiles of 2 x 14; by a walk over orders, tiles and places of this block
    assert found.value <= least.moved


def test_two_blocks_below_common_tiles_move_what_is_compulsory() -> None:
    """Of each block the loop over its inner channels stands inside the tiles of rows and columns of both."""
    work, words = inverted_blocks(2, 28, 24, 192), 31_786
    compulsory = 24 * (32 * 32 + 28 * 28) + 2 * 192 * (24 + 9 + 24)  # what comes in and leaves, weights
    least = best_tilings(work, 8 * words, Fraction(0))[0, 6]
    found = below_tiles(work, words, least)
    assert found is not None
    assert found.value == least.moved == 8 * compulsory


@pytest.mark.parametrize("seed", few(range(60), 6))
def test_runs_in_tiles_of_random_blocks_move_what_is_estimated(seed: int) -> None:
    rng = random.Random(f"blocks in tiles {seed}")
    many = rng.choice((1, 2, 2))
    work = inverted_blocks(many, rng.choice((2, 4, 6)), rng.choice((1, 2, 3)), rng.choice((1, 2, 4)))
    words = int(2 ** rng.uniform(4.5, 9))
    least = best_tilings(work, 8 * words, Fraction(0)).get((0, 3 * many))
    if least is not None:
        found = below_tiles(work, words, least)
        assert found is not None
        assert found.value <= least.moved


def test_rows_of_a_run_inside_a_program_are_made_again() -> None:
    texts = [*PAIR, "R[z] += O[z,v] * Y[v]"]
    work = pm.program(texts, sizes=OF_PAIR, temporary=["T", "G", "O"], bits=8)
    assert makes_rows_again(work)
    assert not makes_rows_again(pm.program(list(POOL), sizes=OF_POOL, temporary=["T", "G"], bits=8))


def test_what_is_kept_or_not_needed_is_not_made_in_tiles() -> None:
    assert in_tiles(pm.program(list(PAIR), sizes=OF_PAIR, temporary=["T"], bits=8), "v", 2) is None  # G is kept
    longer = pm.program(list(PAIR), sizes=OF_PAIR | {"y": 14}, temporary=["T", "G"], bits=8)
    assert in_tiles(longer, "v", 2) is None  # nobody reads the last row
    asked = pm.program(list(PAIR), sizes=OF_PAIR, temporary=["T", "G"], bits=8)
    assert in_tiles(asked, "v", 2) is not None
    assert in_tiles(asked, "z", 1) is None  # all of G for each


@pytest.mark.parametrize(
    ("texts", "sizes", "last", "rows"),
    [(PAIR, OF_PAIR, "v", {"T_first": 1, "T": 12, "G": 13}), (THREE, OF_THREE, "u", {"T": 13, "U": 6})],
)
def test_lines_compute_what_the_program_computes(
    texts: tuple[str, ...], sizes: dict[str, int], last: str, rows: dict[str, int]
) -> None:
    work = pm.program(list(texts), sizes=sizes, temporary=[text[0] for text in texts[:-1]], bits=8)
    lined = in_lines(work, last)
    assert lined is not None
    assert results(lined) == results(work)
    assert made_again(work, lined) == 0
    assert workload_from_document(workload_to_document(lined)) == lined
    assert {each.name: each.shape[0] for each in lined.tensors if each.temporary} == rows
    assert all(last in each.dims for each in lined.statements if each.name in {one.name for one in work.statements})


def test_what_is_kept_not_needed_or_not_shared_is_not_made_in_lines() -> None:
    pool = pm.program(list(POOL), sizes=OF_POOL, temporary=["T", "G"], bits=8)
    assert in_lines(pool, "v") is None  # windows that do not overlap
    assert in_lines(pm.program(list(PAIR), sizes=OF_PAIR, temporary=["T"], bits=8), "v") is None  # G is kept
    longer = pm.program(list(PAIR), sizes=OF_PAIR | {"y": 14}, temporary=["T", "G"], bits=8)
    assert in_lines(longer, "v") is None  # nobody reads the last row
    texts = ["T[y] += I[y+r] * W[r]", "A[y] = B[y]", "O[v] += T[2*v+a] * V[a]"]
    assert in_lines(pm.program(texts, sizes=OF_BACK, temporary=["T"], bits=8), "v") is None  # A, between the two


def test_loops_that_others_have_too_keep_their_names() -> None:
    texts = ["T[y] += I[y+r] * W[r]", "A[y] = B[y]", "O[v] += T[2*v+a] * V[a]"]
    work = pm.program(texts, sizes={"y": 13, "r": 2, "v": 6, "a": 3}, temporary=["T"], bits=8)
    cut = in_tiles(work, "v", 2)
    assert cut is not None
    assert [each.dims for each in cut.statements] == [("v_by_2", "y_5", "r"), ("y",), ("v_by_2", "v", "a")]
    assert results(cut) == results(work)


def test_rows_in_another_order_and_recurrences_are_not_made_in_tiles() -> None:
    back = ["T[12-y] += I[y+r] * W[r]", "O[v] += T[2*v+a] * V[a]"]
    assert in_tiles(pm.program(back, sizes=OF_BACK, temporary=["T"], bits=8), "v", 2) is None
    rows = {"dims": ["y"], "target": "T[y]", "operator": "=", "reads": ["I[y]"]}
    reads = ["T[2*v+a]", "O[z,v+1]"]  # of a later tile, for an earlier z
    ends = {"dims": ["z", "v", "a"], "target": "O[z+1,v]", "operator": "+=", "reads": reads}
    sizes = {"y": 13, "v": 6, "a": 3, "z": 2}
    more = {"sizes": sizes, "temporary": ["T"], "initial": ["O"], "bits": dict.fromkeys("TIO", 8)}
    work = pm.io.workload_from_document({"name": "recurrence", "statements": [rows, ends], **more})
    assert in_tiles(work, "v", 2) is None


def test_tiles_of_rows_need_not_divide_the_rows() -> None:
    texts = ["T[y] += I[c,y] * W[c]", "O[v] += T[3*v+a] * V[a]"]
    work = pm.program(texts, sizes={"y": 31, "v": 10, "a": 4, "c": 64}, temporary=["T"], bits=8)
    options = Options("lex:energy,traffic:DRAM", "divide", time_limit_s=1, clock=process_time)  # is not climbed
    asked, known = read_question(work, buffer(5), options, provers)
    cut = in_tiles(work, "v", 5)
    assert cut is not None
    (best,) = begun(cut, buffer(5), "energy").incumbents
    assert bound_by_refunds(asked, known, never).floors[0] <= best.values[0]


def drawn(seed: int) -> Workload:
    """Return a program of two to five statements, over rows (and columns, channels), which pass on what the next one
    reads at its own place or through a window; of some nobody reads all rows, some are kept or read twice."""
    rng = random.Random(f"in tiles {seed}")
    count, plane = rng.randint(2, 5), rng.random() < 0.3
    rows, columns = rng.randint(2, 6), rng.randint(1, 3) if plane else 1
    texts, channels = list[str](), rng.random() < 0.4
    sizes = {"c0": rng.choice((1, 2)), f"c{count}": rng.choice((1, 2))}
    for at in range(count, 0, -1):  # the last one first: its rows tell how many those before it need
        own = ["c" + str(at)] * channels + [f"y{at}"] + [f"x{at}"] * plane
        sizes |= {f"y{at}": rows} | ({f"x{at}": columns} if plane else {})
        before, sizes[f"c{at - 1}"] = ["c" + str(at - 1)] * channels, rng.choice((1, 2))
        if rng.random() < 0.3 and not channels:
            text = f"T{at}[{','.join(own)}] = T{at - 1}[{','.join(own)}] * A{at}[y{at}]"
        else:
            step = rng.choice((1, 1, 2, 3))
            reach = max(step, rng.choice((1, 2, 3)))  # all rows between are read, too
            sizes |= {f"r{at}": reach} | ({f"s{at}": reach} if plane else {})
            window = [f"{step}*y{at}+r{at}"] + [f"{step}*x{at}+s{at}"] * plane
            factor = f"W{at}[{','.join([f'r{at}', *own[:channels], *before])}]"
            text = f"T{at}[{','.join(own)}] += T{at - 1}[{','.join([*before, *window])}] * {factor}"
            rows, columns = step * (rows - 1) + reach, step * (columns - 1) + reach if plane else 1
        texts.insert(0, text)
        rows += (rng.random() < 0.1) * (at > 1 and not plane)  # one that nobody reads
    if rng.random() < 0.2:
        at = rng.randint(1, count - 1)  # another one that reads what is passed on
        own = ["c" + str(at)] * channels + [f"y{at}"] + [f"x{at}"] * plane
        texts.insert(rng.randint(at, count - 1), f"U[{','.join(own)}] = T{at}[{','.join(own)}] * B[y{at}]")
    temporary = [f"T{at}" for at in range(1, count) if rng.random() < 0.95]
    used = {name: size for name, size in sizes.items() if any(name in text for text in texts)}
    return pm.program(texts, sizes=used, temporary=temporary, bits=8)


def needed(work: Workload, last: str, tile: int) -> dict[str, int]:
    """Return how many instances of each statement the tiles of the last one need, one by one."""
    total, extents, end = dict.fromkeys((each.name for each in work.statements), 0), work.extents(), work.statements[-1]
    for start in range(0, extents[last], tile):
        wanted = {touched(end.target, point) for point in points(end, extents) if start <= point[last] < start + tile}
        for each in reversed(work.statements):
            own = [point for point in points(each, extents) if touched(each.target, point) in wanted]
            total[each.name] += len(own)
            wanted |= {touched(access, point) for point in own for access in each.reads}
    return total


@pytest.mark.parametrize("seed", few(range(1_000), 8))
def test_tiles_of_random_programs_make_what_each_needs(seed: int) -> None:
    work = drawn(seed)
    every = results(work)
    for last in work.statements[-1].target.dims:
        extent, lined = work.extents()[last], in_lines(work, last)
        assert lined is None or (results(lined) == every and made_again(work, lined) == 0)
        assert lined is None or workload_from_document(workload_to_document(lined)) == lined
        for tile in (tile for tile in range(1, extent) if extent % tile == 0):
            cut = in_tiles(work, last, tile)
            if cut is None:
                continue
            common, expected = cut.statements[-1].dims[0], needed(work, last, tile)
            for own, each in zip(work.statements, cut.statements, strict=True):
                is_cut = each.dims[0] == common
                instances = prod(cut.extents()[name] for name in each.dims)
                once = prod(work.extents()[name] for name in own.dims)
                assert instances == (expected[own.name] if is_cut else once), own.name
            assert results(cut) == every
