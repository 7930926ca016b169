"""A sweep under way: what the store knows, rounds of searches, and what follows from them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from polymap.inputs import arch_to_document
from polymap.ir import Brief, BudgetError, Mistake
from polymap.networks.columns import Column, Provenance
from polymap.networks.exploration import Document, Executor, run_question
from polymap.networks.stores import Entry, State, Store, entry_of, key_of, known_answer
from polymap.networks.tuning import TUNING
from polymap.search import mapping_document
from polymap.workload import workload_to_document


@dataclass(frozen=True, slots=True, repr=False)
class MachineTotal(Brief):
    """A machine that maps all workloads. values: per objective, the sum of multiplicity times value; status: the
    weakest. area_um2: None where not all machines of the sweep state one."""

    machine: object
    values: tuple[Fraction, ...]
    on_chip_bits: int | None
    status: str
    area_um2: Fraction | None = None

    @property
    def takes(self) -> Fraction | int | None:
        """What the machine takes: its area in um2 where the sweep's machines state one, else its on-chip bits."""
        return self.on_chip_bits if self.area_um2 is None else self.area_um2

    def place(self) -> tuple[Fraction | float, ...]:
        """Return the sums and what the machine takes as numbers, unlimited as infinity."""
        return (*self.values, math.inf if self.takes is None else self.takes)

    def is_at_least(self, other: MachineTotal) -> bool:
        """Return whether it is as good in everything: all sums and what it takes are at most the other's."""
        return all(one <= two for one, two in zip(self.place(), other.place(), strict=True))

    def beats(self, other: MachineTotal) -> bool:
        """Return whether it is as good in everything, and better in something."""
        return self.is_at_least(other) and self.place() != other.place()


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is, in rows. proven: OPTIMAL or INFEASIBLE. searched: by this run. seconds_left: at the pace so
    far; None before the first row. table: returns the rows of the machines that are answered whole."""

    done: int
    rows: int
    proven: int
    searched: int
    seconds_left: float | None
    table: Callable[[], Any] = field(repr=False, compare=False)


@dataclass(slots=True)
class SweepRun:
    """A sweep under way: columns of workloads and objectives, and what answers them."""

    columns: list[Column]
    objectives: tuple[str, ...]
    sizes: list[tuple[int | None, Fraction | None]]  # of each machine, on-chip bits and area
    options: Document
    journal: Store | None
    executor: Executor | None
    on_progress: Callable[[SweepProgress], None] | None
    table: Callable[[], object]
    searched: int = 0
    begun: float = 0.0

    def recall(self) -> None:
        """Take from the store what it knows under these limits."""
        if self.journal is None or not self.columns:
            return
        documents = [arch_to_document(arch) for arch in self.columns[0].machines]
        for column in self.columns:
            asked = self._question(column, 0)
            for number, document in zip(column.order.class_of, documents, strict=True):
                answer = None if number in column.replies else self._known(asked | {"arch": document})
                if answer is not None:
                    column.settle(number, answer, Provenance.KNOWN)
            column.infer()

    def search(self, *, front_only: bool) -> None:
        """Search round by round: in each column the best machines that are open, then what follows from them."""
        self.begun = time.monotonic()
        while True:
            if front_only:
                self._dismiss()
            batch = [(column, number) for column in self.columns for number in column.next_classes()]
            if not batch:
                return
            self._search_all(batch)
            for column in self.columns:
                column.infer()

    def _search_all(self, batch: list[tuple[Column, int]]) -> None:
        """Search a round of questions; those that another process is searching come last, and may be known then."""
        asked = [(column, number, self._question(column, number)) for column, number in batch]
        if self.executor is None:
            for column, number, question in sorted(asked, key=lambda each: self._is_running(each[2])):
                answer = self._known(question)
                if answer is None:
                    self._put(entry_of(question))
                    answer = self._added(question, run_question(question | self._hints(column, number, question)))
                    self._put(entry_of(question, answer))
                    self._take(column, number, answer, Provenance.SEARCHED)
                else:
                    self._take(column, number, answer, Provenance.KNOWN)
            return
        for _, _, question in asked:
            self._put(entry_of(question, state=State.ASKED))
        try:
            futures = [
                self.executor.submit(run_question, question | self._hints(column, number, question))
                for column, number, question in asked
            ]
            for (column, number, question), future in zip(asked, futures, strict=True):
                answer = self._added(question, future.result())
                self._put(entry_of(question, answer))
                self._take(column, number, answer, Provenance.SEARCHED)
        except BrokenExecutor as error:
            hint = "What was answered is in the store, if there is one: run again. Fewer workers need less memory."
            what = f"a worker ended before its answer, after {self.searched:,} searches: {error}"
            raise BudgetError(Mistake("PM567", what, hint)) from None

    def _take(self, column: Column, number: int, answer: Document, how: Provenance) -> None:
        column.settle(number, answer, how)
        self.searched += how is Provenance.SEARCHED
        if self.on_progress is None:
            return
        replies = [
            column.replies[number]
            for column in self.columns
            for number in column.order.class_of
            if number in column.replies
        ]
        rows, done = len(self.columns) * len(self.sizes), len(replies)
        proven = sum(reply.status in ("OPTIMAL", "INFEASIBLE") for reply in replies)
        left = (time.monotonic() - self.begun) / done * (rows - done)
        self.on_progress(SweepProgress(done, rows, proven, self.searched, left, self.table))

    def _question(self, column: Column, number: int) -> Document:
        documents = {"workload": workload_to_document(column.workload), "arch": arch_to_document(column.arch(number))}
        return documents | {"objective": column.objective} | self.options

    def _hints(self, column: Column, number: int, question: Document) -> Document:
        """Return what a question is told besides: the size of the space, which no row tells, need not be counted; where
        tiles divide, what other machines' answers say, and what an earlier run left, which has had its time."""
        told: Document = {"counts_space": False}
        if self.options["tiles"] != "divide":
            return told
        start, least = column.known_before(number)
        told |= {"keeps_open": True} if self.journal is not None else {}
        told |= {} if start is None else {"start": mapping_document(start)}
        told |= {} if least is None else {"least": [least.numerator, least.denominator]}
        earlier = self._earlier(question)
        if earlier is None or "open" not in earlier:
            return told
        if earlier["mapping"] is not None:
            told["start"] = earlier["mapping"]  # nothing that it beats is open any more
        left_s = self.options["time_limit_s"] - float(earlier["seconds"])
        return told | {"open": earlier["open"], "time_limit_s": max(left_s, TUNING.least_s)}

    def _earlier(self, question: Document) -> Document | None:
        """Return the answer of a run with a shorter limit."""
        entry = None if self.journal is None else self.journal.find(key_of(question))
        return None if entry is None or entry.state is not State.LIMIT else entry.answer

    def _added(self, question: Document, answer: Document) -> Document:
        """Return the answer with the seconds of the run that it goes on from."""
        earlier = self._earlier(question)
        spent = 0.0 if earlier is None or "open" not in earlier else float(earlier["seconds"])
        return answer | {"seconds": float(answer["seconds"]) + spent}

    def _known(self, question: Document) -> Document | None:
        """Return the answer in the store, unless a longer time might tell more."""
        return known_answer(self.journal, question)

    def _is_running(self, question: Document) -> bool:
        """Whether another process has asked it, or one that ended early."""
        entry = None if self.journal is None else self.journal.find(key_of(question))
        return entry is not None and entry.state in (State.ASKED, State.RUNNING)

    def _put(self, entry: Entry) -> None:
        if self.journal is not None:
            self.journal.put(entry)

    def _dismiss(self) -> None:
        """Dismiss the open classes of which every machine maps not all, or is in nothing better than one whose values
        are known."""
        sums = self._sums()
        whole = sorted((total for total, is_whole in sums if is_whole and total is not None), key=MachineTotal.place)
        front: list[MachineTotal] = []
        for each in whole:
            if not any(other.is_at_least(each) for other in front):
                front.append(each)
        needed = [
            total is not None and not any(other is not total and other.is_at_least(total) for other in front)
            for total, _ in sums
        ]
        for column in self.columns:
            kept = {number for number, is_needed in zip(column.order.class_of, needed, strict=True) if is_needed}
            for number in column.open_classes():
                if number not in kept:
                    column.dismiss(number)

    def _sums(self) -> list[tuple[MachineTotal | None, bool]]:
        """Return, of each machine, the sums of what values are known and of bounds of others (None where it does not
        map all), and whether all are known."""
        found: list[tuple[MachineTotal | None, bool]] = []
        for index, (bits, area) in enumerate(self.sizes):
            sums, is_whole, is_mapped = dict.fromkeys(self.objectives, Fraction(0)), True, True
            for column in self.columns:
                number = column.order.class_of[index]
                reply = column.replies.get(number)
                least = reply.value if reply is not None and reply.status == "OPTIMAL" else column.floors.get(number)
                sums[column.objective] += column.multiplicity * (least or 0)
                is_whole = is_whole and reply is not None and reply.status == "OPTIMAL"
                is_mapped = is_mapped and (reply is None or reply.status not in ("INFEASIBLE", "DISMISSED"))
            total = MachineTotal(index, tuple(sums.values()), bits, "OPTIMAL" if is_whole else "", area)
            found.append((total if is_mapped else None, is_whole))
        return found
