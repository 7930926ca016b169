"""No words break the command line: they are read, or refused by OptionError."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from polymap.cli.arguments import Options, parse, wanted_help
from polymap.ir.errors import OptionError

WORDS = st.lists(
    st.one_of(
        st.sampled_from(["explore", "evaluate", "codegen", "check", "list", "--arch", "--json", "-", "--", "-o"]),
        st.sampled_from(["--size", "m=4", "m=", "=4", "--time-limit", "1e999", "-1", "--seed=٣", "--help", "--run=1"]),
        st.text(max_size=8),
        st.text(max_size=6).map(lambda text: "--" + text),
    ),
    max_size=8,
)


@given(WORDS)
@example(["explore", "--arch", "--"])
@example(["check", "\udcff", "\udcff=4"])
@example(["check", "g", "m=" + "9" * 5000])
def test_words_are_read_or_refused(words: list[str]) -> None:
    if wanted_help(words) is not None:
        return
    try:
        options = parse(words)
    except OptionError as refusal:
        message = str(refusal)
    else:
        assert isinstance(options, Options)
        assert len(dict(options.sizes)) == len(options.sizes)
        assert all(size >= 1 for _, size in options.sizes)
        assert options.time_limit_s > 0
        return
    assert message.startswith("PM55")
