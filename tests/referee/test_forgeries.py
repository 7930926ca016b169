"""1,000 forged certificates with repaired hashes: all are refused (90 of them in `make quick`).

Run as a program it prints the tally by kind:
    python -m tests.referee.test_forgeries [COUNT] [SEED]
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import cycle, islice

import pytest

from polymap import conv2d, einsum, explore, load_arch, matmul, verify
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from tests.referee.forgeries import BoundForger, Forger, finished

DEAR = Fanout("X", 4, pj_per_word=Fraction(1, 2), pj_per_word_hop=Fraction(1, 5), reduce_pj=Fraction(1, 20))


def machine(
    buffer_bits: int, register_bits: int, *, keep: bool = False, slow: bool = False, wires: bool = False
) -> Architecture:
    """Return three levels with four processing elements; keep: both inner levels hold every tensor; slow: little
    bandwidth, so that the least energy and the least latency are of different mappings; wires: they cost energy."""
    must = ("@input", "@weight", "@output") if keep else ()
    pj, (dram, buffer) = Fraction(2 if slow else 100), (Fraction(8), Fraction(32)) if slow else (Fraction(64), None)
    return Architecture(
        "toy",
        (
            MemoryLevel("DRAM", None, 8, pj, pj, bandwidth_bits_per_cycle=dram),
            MemoryLevel(
                "GLB", buffer_bits, 8, Fraction(3), Fraction(3), must_hold=must, bandwidth_bits_per_cycle=buffer
            ),
            *((DEAR, replace(DEAR, name="Y", size=2)) if wires else (Fanout("X", 4),)),
            MemoryLevel("RF", register_bits, 8, Fraction(1), Fraction(1), must_hold=must),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )


# Between them they have every kind of proof: apart, joint with and without prices, search, places.
Demands = dict[str, object]
CASES: tuple[tuple[Workload, Architecture, str, Demands | None], ...] = (
    (matmul(m=16, n=16, k=16), machine(768, 48, keep=True), "energy", None),
    (einsum("O[k,p,q] += I[p+r,q+s] * W[k,r,s]", k=2, p=4, q=4, r=2, s=2), machine(600, 64, keep=True), "energy", None),
    (einsum("O[p,q] += I[p+r,q+s] * W[r,s]", p=6, q=6, r=3, s=3), machine(256, 32), "energy", None),
    (matmul(m=8, n=8, k=4), machine(256, 32), "edp", None),
    (matmul(m=16, n=16, k=16), load_arch("flat3"), "energy", {"intrinsic": {"m": 8, "n": 8}}),
    (matmul(m=8, n=8, k=8), machine(768, 64), "energy", {"order": ["k", "m"], "limits": {"latency": 129}}),
    (matmul(m=8, n=8, k=4), machine(256, 32), "ed2p", None),
    (matmul(m=16, n=8, k=8), machine(256, 32, slow=True), "edp", None),
    (matmul(m=8, n=8, k=4), machine(256, 32, wires=True), "energy", None),
)


@cache
def certificate(number: int) -> str:
    workload, arch, objective, demands = CASES[number]
    found = explore(workload, arch, objective, tiles="divide", time_limit_s=60, constraints=demands)
    return found.certificate()


def forgeries(count: int, seed: int, cases: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    """Yield (kind, text), kinds and certificates in turn; where a certificate has none of a kind, the next one."""
    rng = random.Random(seed)
    forgers = [Forger(certificate(i), CASES[i][0], CASES[i][1], rng) for i in cases]
    made = turn = 0
    kinds = cycle(forgers[0].kinds)
    while made < count:
        kind = next(kinds)
        for _ in forgers:
            forger = forgers[(turn + turn // len(forgers[0].kinds)) % len(forgers)]
            turn += 1
            # What is spent at the outermost level is the energy's to tell.
            told = not kind.startswith(("another machine", "energies")) or forger.objective == "energy"
            text = forger.make(kind) if told else None
            if text is not None:
                made += 1
                yield kind, text
                break


def tally(count: int, seed: int, cases: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8)) -> Counter[str]:
    """Return the forgeries made by kind; all of them were refused."""
    made: Counter[str] = Counter()
    for kind, text in forgeries(count, seed, cases):
        verdict = verify(text)
        assert not verdict.proven, f"{kind} was accepted:\n{text}"
        # Without windows a mapping that costs less is soon met; with them what is taken on trust is listed.
        assert verdict.reason or ("word" in kind and '"p":1,"r":1' in text and verdict.unproven), f"{kind}:\n{text}"
        assert not (verdict.reason and verdict.reasons), "what is refused tells why of no structure"
        made[kind] += 1
    return made


BOUNDED: tuple[tuple[Workload, Architecture, str], ...] = (
    (matmul(m=7, n=6, k=5), machine(256, 32), "energy"),
    (einsum("O[k,p,q] += I[2*p+r,q+s] * W[k,r,s]", k=3, p=4, q=5, r=3, s=2), machine(600, 64), "energy"),
    (einsum("O[p,q] += I[p+r,q+s] * W[r,s]", p=6, q=5, r=3, s=3), machine(256, 32), "edp"),
    (matmul(m=8, n=8, k=4), load_arch("eyeriss_like"), "ed2p"),
    (matmul(m=7, n=6, k=5), machine(256, 32, wires=True), "energy"),
)


@cache
def bound_certificate(number: int) -> str:
    return explore(*BOUNDED[number], tiles="any", time_limit_s=60, work_limit=1).certificate()


def bound_tally(count: int, seed: int) -> Counter[str]:
    """Return the forgeries of bounds over tiles of any size made by kind; all of them were refused."""
    rng, made = random.Random(seed), Counter[str]()
    forgers = [BoundForger(bound_certificate(i), *BOUNDED[i][:2], rng) for i in range(len(BOUNDED))]
    turns = ((kind, one) for _ in range(count) for one in forgers for kind in one.kinds)
    for kind, forger in islice(turns, count):
        text = forger.make(kind)
        if text is not None:
            verdict = verify(text)
            assert not verdict.proven, f"{kind} was accepted:\n{text}"
            assert verdict.reason, f"{kind}:\n{text}"
            made[kind] += 1
    return made


def test_bounds_over_any_sizes_are_accepted_and_their_forgeries_refused() -> None:
    for number in range(len(BOUNDED)):
        verdict = verify(bound_certificate(number))
        assert verdict.proven, verdict.reason
        assert verdict.value is not None
        assert verdict.bound is not None
        assert 0 < verdict.bound <= verdict.value
    made = bound_tally(288, seed=0)
    assert len(made) == 18
    assert sum(made.values()) > 250


@pytest.mark.slow
def test_the_certificates_themselves_are_accepted_and_have_every_kind_of_proof() -> None:
    texts = [certificate(number) for number in range(len(CASES))]
    for text in texts:
        verdict = verify(text)
        assert verdict.proven, verdict.reason
    for kind in (" apart ", " joint - ", " joint 1024:", " search - ", " search 1024:", ":7", ";", " places "):
        assert any(kind in text for text in texts), kind


def test_some_forgeries_are_refused() -> None:
    assert len(tally(90, seed=0, cases=(3, 4, 6, 7, 8))) > 20


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.soak)])
def test_forgeries_are_refused(count: int) -> None:
    made = tally(count, seed=1)
    assert sum(made.values()) == count
    assert min(made.values()) >= count // 100


def mutated(text: str, rng: random.Random) -> str:
    """Return a text with one to three accidents: parts cut, doubled, moved or replaced, numbers and lines blown up."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        b = min(b, a + rng.choice((1, 5, 50, 1000)))
        other = rng.choice(
            ("", "-", "9" * 5000, "[" * 10_000, "\n", "\0", "\u00e9", "\ud800", "x" * 10**6, "1e999", '"')
        )
        text = rng.choice((text[:a], text[:a] + text[b:], text[:a] + other + text[b:], text[:b] + text[a:]))
    return text


def rehashed(text: str) -> str:
    """Return the text with its last line and the head's hash repaired, where it has such lines."""
    lines = text.split("\n")
    return finished([line for line in lines if not line.startswith("end ")][: len(lines) - 2])


def mutations(count: int, seed: int) -> None:
    """Show that the checker answers every mutated text, and proves no other value for the same question."""
    rng = random.Random(seed)
    texts = [certificate(number) for number in (3, 5)]
    for turn in range(count):
        text = mutated(texts[turn % 2], rng)
        for one in (text, rehashed(text) if text.isascii() else text):
            if one not in texts:
                verdict = verify(one, time_limit_s=20)
                assert verdict.proven or verdict.reason, one[:3000]
                if verdict.proven:  # a name that changed everywhere asks another question, with the same answer
                    true = verify(texts[turn % 2])
                    assert (verdict.head != true.head) or (verdict.value == true.value), one[:3000]


def test_mutated_texts_are_answered() -> None:
    mutations(500, seed=1)


@pytest.mark.slow
def test_a_convolution_is_certified() -> None:
    layer, arch = conv2d(K=2, C=2, H=4, W=4, R=3, S=3, padding=1), machine(512, 64, keep=True)
    verdict = verify(explore(layer, arch, tiles="divide", time_limit_s=120).certificate())
    assert verdict.proven, verdict.reason


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    began = time.process_time()
    found = tally(number, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for name, times in sorted(found.items()):
        print(f"{times:5}  {name}")
    print(f"{sum(found.values()):5}  refused, none accepted, {time.process_time() - began:.1f} CPU s")
