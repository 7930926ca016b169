"""Ctrl-C waits for imports, and for nothing else."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from polymap.cli.interrupt import interrupts_wait


def test_an_interrupt_is_raised_when_the_block_is_done() -> None:
    done: list[str] = []

    def load() -> None:
        with interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("loaded")
        done.append("never")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        load()
    assert done == ["loaded"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_wins_over_what_a_library_made_of_it() -> None:
    def load() -> None:
        with interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
            raise ImportError("initialization failed")

    with pytest.raises(KeyboardInterrupt):
        load()


def test_other_errors_pass() -> None:
    def load() -> None:
        with interrupts_wait():
            raise ImportError("no such module")

    with pytest.raises(ImportError, match="no such module"):
        load()


def test_who_ignores_interrupts_goes_on_ignoring_them() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_wait():
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_have_no_signals() -> None:
    done: list[str] = []

    def load() -> None:
        with interrupts_wait():
            done.append("loaded")

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert done == ["loaded"]
