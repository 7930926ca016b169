"""Completion scripts for shells, made from the commands and options that the command line knows."""

from __future__ import annotations

from polymap.cli.arguments import LAYOUTS, SHELLS, commands
from polymap.codegen.source import ORDERS
from polymap.inputs import preset_names
from polymap.report import SCHEMAS
from polymap.search.problem import SINGLE_FORMS
from polymap.workload import LAYERS, builtin_names, builtin_networks

_FILES = (
    "--mapping",
    "--constraints",
    "--output",
    "-o",
    "--certificate",
    "--json",
    "--schedule",
    "--header",
    "--shared",
)
_NEEDS_WORKLOAD = ("explore", "evaluate", "codegen", "check", "report", "compare")

_BASH = """\
# polymap completion bash: put this line into ~/.bashrc:  eval "$(polymap completion bash)"
_polymap() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words="" first=""
    case "$before" in
{values}
        {files}) COMPREPLY=($(compgen -f -- "$word")); return ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} help --help --version"
    else
        case "${{COMP_WORDS[1]}}" in
{options}
        esac
        [ "$COMP_CWORD" -eq 2 ] && [ -n "$first" ] && [ "${{word:0:1}}" != "-" ] && words="$first"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
    [ "$COMP_CWORD" -eq 1 ] && COMPREPLY=($(compgen -W "$words" -- "$word"))
    return 0
}}
complete -o filenames -F _polymap polymap
"""


def completion_text(shell: str) -> str:
    """Return the script that makes a shell of SHELLS complete the words of `polymap`."""
    assert shell in SHELLS  # parse() refuses others
    if shell == "fish":
        return _fish()
    if shell == "zsh":
        head = '# polymap completion zsh: put this line into ~/.zshrc:  eval "$(polymap completion zsh)"'
        return f"{head}\nautoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{_bash()}"
    return _bash()


def _values() -> dict[str, tuple[str, ...]]:
    """Return the words that may follow an option."""
    objectives = tuple(form for form in SINGLE_FORMS if ":" not in form)
    return {
        "--arch": preset_names(),
        "--objective": objectives,
        "--tiles": ("any", "divide"),
        "--order": ORDERS,
        "--layout": LAYOUTS,
    }


def _families(name: str) -> tuple[str, ...]:
    """Return the words that may follow the workload of a command."""
    if name != "compare":
        return ()
    from polymap.networks import FAMILIES  # loads the search

    return FAMILIES


def _words(name: str) -> tuple[str, ...]:
    """Return the words that may follow a command: what it is about."""
    networks = builtin_networks() if name in ("explore", "report") else ()
    own = {"schema": SCHEMAS, "completion": SHELLS, "help": tuple(commands())}
    return (*networks, *builtin_names(), *LAYERS) if name in _NEEDS_WORKLOAD else own.get(name, ())


def _bash() -> str:
    files = {"--arch": ' $(compgen -f -- "$word")'}  # a machine's
    values = [
        f'        {option}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word"){files.get(option, "")}); return ;;'
        for option, words in _values().items()
    ]
    options = [
        f'            {name}) words="{" ".join((*own, "--help", *_families(name)))}" first="{words}" ;;'
        for name, own in {**commands(), "help": ()}.items()
        for words in (" ".join(_words(name)),)
    ]
    return _BASH.format(
        values="\n".join(values), files="|".join(_FILES), commands=" ".join(commands()), options="\n".join(options)
    )


def _fish() -> str:
    lines = ["# polymap completion fish: polymap completion fish > ~/.config/fish/completions/polymap.fish"]
    known = commands()
    lines.append(f"complete -c polymap -n __fish_use_subcommand -x -a '{' '.join((*known, 'help'))}'")
    lines.append("complete -c polymap -n __fish_use_subcommand -l version -l help")
    for name, own in {**known, "help": ()}.items():
        inside = f"complete -c polymap -n '__fish_seen_subcommand_from {name}'"
        if _words(name):
            lines.append(f"{inside} -a '{' '.join((*_words(name), *_families(name)))}'")
        for option in own:
            words = _values().get(option)
            takes = f" -r -a '{' '.join(words)}'" if words else " -r" if option in _FILES else ""
            lines.append(f"{inside} -l {option.removeprefix('--')}{takes}")
    return "\n".join(lines) + "\n"
