"""Completions for shells, from the same table as `--help`. Sessions are looked up while somebody types."""

from collections.abc import Iterator

from sesamectl.flags import COMMANDS, Command, Flag

SESSIONS = "sesamectl completions sessions --matching"
TOP = ("--help", "--version")


def script(shell: str) -> str:
    """The whole script for this shell."""
    return "\n".join({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()) + "\n"


def _operands(command: Command) -> tuple[str, ...]:
    """The words that a command's operand is chosen from."""
    return tuple(command.operand.split("|")) if "|" in command.operand else ()


def _takes_session(command: Command) -> bool:
    return command.operand.strip("[]") == "SESSION"


def _flags(command: Command) -> tuple[str, ...]:
    return (*(f"--{flag.name}" for flag in command.flags), "--help")


# -- bash: from version 3.2 on, which macOS has


def _bash() -> Iterator[str]:
    yield "# bash completion of sesamectl: source <(sesamectl completions bash)"
    yield "_sesamectl_sessions() {"
    yield "  local id name listing="
    yield "  case $COMP_TYPE in 63|33|37) listing=1;; esac  # only shown, not put into the line"
    yield f'  COMPREPLY=(); while IFS=$\'\\t\' read -r id name; do COMPREPLY+=("$id${{listing:+ ($name)}}"); done < <({SESSIONS}="$1")'
    yield '  if [ "${#COMPREPLY[@]}" -eq 1 ]; then COMPREPLY=("${COMPREPLY[0]%% *}"); fi'
    yield "}"
    yield "_sesamectl() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words= operands="
    yield "  COMPREPLY=()"
    yield f'  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "{" ".join((*COMMANDS, *TOP))}" -- "$cur")); return; fi'
    yield '  case "$command $prev" in'
    for name, command in COMMANDS.items():
        yield from (
            f'    "{name} --{flag.name}") {_bash_value(flag)} return;;' for flag in command.flags if flag.metavar
        )
    yield "  esac"
    yield '  case "$command" in'
    for name, command in COMMANDS.items():
        yield f'    {name}) words="{" ".join(_flags(command))}" operands="{" ".join(_operands(command))}";;'
    yield "  esac"
    yield '  case "$command $cur" in'
    yield '    *" -"*) COMPREPLY=($(compgen -W "$words" -- "$cur"));;'
    for name in _with_session():
        yield f'    {name}" "*) _sesamectl_sessions "$cur";;'
    yield '    *) COMPREPLY=($(compgen -W "$operands" -- "$cur"));;'
    yield "  esac"
    yield "}"
    yield "complete -F _sesamectl sesamectl"


def _bash_value(flag: Flag) -> str:
    if flag.suggestions:
        return f'COMPREPLY=($(compgen -W "{" ".join(flag.suggestions)}" -- "$cur"));'
    kind = {"DIR": "-d", "FILE": "-f"}.get(flag.metavar)
    return f'COMPREPLY=($(compgen {kind} -- "$cur"));' if kind else ""


def _with_session() -> list[str]:
    return [name for name, command in COMMANDS.items() if _takes_session(command)]


# -- zsh


def _zsh() -> Iterator[str]:
    yield "#compdef sesamectl"
    yield "# zsh completion of sesamectl: as _sesamectl in a directory of your fpath, or source <(sesamectl completions zsh)"
    yield "_sesamectl_sessions() {"
    yield "  local -a ids shown; local id name"
    yield f'  while IFS=$\'\\t\' read -r id name; do ids+=($id); shown+=("$id  $name"); done < <({SESSIONS}="$PREFIX")'
    yield "  compadd -U -l -d shown -a ids"
    yield "}"
    yield "_sesamectl() {"
    yield "  local -a commands"
    yield "  commands=("
    yield from (f"    '{_quote_zsh(f'{name}:{command.summary}')}'" for name, command in COMMANDS.items())
    yield "  )"
    yield "  if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "  local command=$words[2]"
    yield "  shift words; (( CURRENT-- ))"
    yield "  case $command in"
    for name, command in COMMANDS.items():
        specs = [*(_zsh_flag(flag) for flag in command.flags), "'--help[show help]'", *_zsh_operand(command)]
        yield f"    {name}) _arguments {' '.join(specs)};;"
    yield "  esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = _sesamectl ]; then _sesamectl "$@"; else compdef _sesamectl sesamectl; fi'


def _zsh_flag(flag: Flag) -> str:
    text = flag.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = ""
    if flag.metavar:
        action = (
            f"({' '.join(flag.suggestions)})"
            if flag.suggestions
            else {"DIR": "_files -/", "FILE": "_files"}.get(flag.metavar, " ")
        )
        value = f":{flag.name}:{action}"
    return f"'{'*' if flag.many else ''}{_quote_zsh(f'--{flag.name}[{text}]{value}')}'"


def _zsh_operand(command: Command) -> tuple[str, ...]:
    if _takes_session(command):
        return ("'1:session:_sesamectl_sessions'",)
    return (f"'1:what:({' '.join(_operands(command))})'",) if _operands(command) else ()


def _quote_zsh(text: str) -> str:
    return text.replace("'", "'\\''")


# -- fish


def _fish() -> Iterator[str]:
    yield "# fish completion of sesamectl: sesamectl completions fish > ~/.config/fish/completions/sesamectl.fish"
    yield "function __sesamectl_is"
    yield "  set -l words (commandline -opc)"
    yield '  if test (count $words) -lt 2; test "$argv[1]" = ""; else; test "$words[2]" = "$argv[1]"; end'
    yield "end"
    yield "complete -c sesamectl -f"
    for name, command in COMMANDS.items():
        yield f"complete -c sesamectl -n '__sesamectl_is \"\"' -a {name} -d {_quote_fish(command.summary)}"
        is_it = f"-n '__sesamectl_is {name}'"
        for flag in command.flags:
            yield f"complete -c sesamectl {is_it} -l {flag.name}{_fish_value(flag)} -d {_quote_fish(flag.help)}"
        yield f"complete -c sesamectl {is_it} -l help -d 'show help'"
        if _takes_session(command):
            yield f"complete -c sesamectl {is_it} -a '({SESSIONS}=(commandline -ct))'"
        elif _operands(command):
            yield f"complete -c sesamectl {is_it} -a '{' '.join(_operands(command))}'"


def _fish_value(flag: Flag) -> str:
    if not flag.metavar:
        return ""
    if flag.suggestions:
        return f" -x -a '{' '.join(flag.suggestions)}'"
    return {"DIR": " -x -a '(__fish_complete_directories)'", "FILE": " -r -F"}.get(flag.metavar, " -x")


def _quote_fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
