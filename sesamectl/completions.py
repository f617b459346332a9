"""Completions for shells, from the same table as `--help`. Sessions and sources are looked up while somebody types.

A session can be found by words of its name, and then completion puts its id in their place; but only if there is one such session.
If there are several, they are listed, and what was typed stays: a word that is gone would have to be typed again.
"""

from collections.abc import Iterator

from sesamectl.flags import COMMANDS, Command, Flag

SESSIONS = "sesamectl completions sessions --matching"
SOURCES = "sesamectl completions sources --matching"
TOP = ("help", "version", "--help", "--version")


def script(shell: str) -> str:
    """The whole script for this shell."""
    return "\n".join({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()) + "\n"


def _operands(command: Command) -> tuple[str, ...]:
    """The words that a command's operand is chosen from."""
    return tuple(command.operand.split("|")) if "|" in command.operand else ()


def _takes_session(command: Command) -> bool:
    return command.operand_name == "SESSION"


def _flags(command: Command) -> tuple[str, ...]:
    return (*(name for flag in command.flags for name in flag.names), "--help")


# -- bash: from version 3.2 on, which macOS has


def _bash() -> Iterator[str]:
    yield "# bash completion of sesamectl: source <(sesamectl completions bash)"
    yield from _BASH_SESSIONS
    yield "_sesamectl() {"
    yield "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words= operands="
    yield "  COMPREPLY=()"
    yield f'  if [ "$COMP_CWORD" -eq 1 ]; then COMPREPLY=($(compgen -W "{" ".join((*COMMANDS, *TOP))}" -- "$cur")); return; fi'
    yield '  if [ "$cur" = = ]; then cur=; elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi  # bash divides --flag=value'
    yield '  case "$command $prev" in'
    for name, command in COMMANDS.items():
        yield from (
            f'    "{name} --{flag.name}") {_bash_value(flag)} return;;' for flag in command.flags if flag.metavar
        )
    yield "  esac"
    yield '  case "$command" in'
    for name, command in COMMANDS.items():
        yield f'    {name}) words="{" ".join(_flags(command))}" operands="{" ".join(_operands(command))}";;'
    yield f'    help) operands="{" ".join(COMMANDS)}";;'
    yield "  esac"
    yield '  case "$command $cur" in'
    yield '    *" -"*) COMPREPLY=($(compgen -W "$words" -- "$cur"));;'
    for name in _with_session():
        yield f'    {name}" "*) _sesamectl_sessions "$cur";;'
    yield '    *) COMPREPLY=($(compgen -W "$operands" -- "$cur"));;'
    yield "  esac"
    yield "}"
    yield "complete -F _sesamectl sesamectl"


# COMP_TYPE says what becomes of the answer: 63 is a list to be shown, 37 words that are put in one after the other; 9, 33 and 64 put in
# what all words begin with; bash 3.2 does not say. So several ids that do not go on from the word become none for 9, and otherwise the
# word itself joins them.
_BASH_SESSIONS = (
    "_sesamectl_sessions() {",
    "  local id name listing= several=",
    "  case $COMP_TYPE in 63|33|64) listing=1;; esac",
    "  COMPREPLY=(); while IFS=$'\\t' read -r id name; do",
    '    COMPREPLY+=("$id${listing:+ ($name)}"); case "$id" in "$1"*) ;; *) several=1;; esac',
    f'  done < <({SESSIONS}="$1")',
    '  if [ "${#COMPREPLY[@]}" -eq 1 ]; then COMPREPLY=("${COMPREPLY[0]%% *}"); return; fi',
    '  case "$COMP_TYPE$several" in 91) COMPREPLY=();; 331|641|1) COMPREPLY+=("$1");; esac',
    "}",
)


def _bash_value(flag: Flag) -> str:
    if flag.suggestions:
        return f'COMPREPLY=($(compgen -W "{" ".join(flag.suggestions)}" -- "$cur"));'
    return {
        "DIR": 'COMPREPLY=($(compgen -d -- "$cur"));',
        "FILE": 'COMPREPLY=($(compgen -f -- "$cur"));',
        "SESSION": '_sesamectl_sessions "$cur";',
        "SOURCE": f'COMPREPLY=($({SOURCES}="$cur"));',
    }.get(flag.metavar, "")


def _with_session() -> list[str]:
    return [name for name, command in COMMANDS.items() if _takes_session(command)]


# -- zsh


def _zsh() -> Iterator[str]:
    yield "#compdef sesamectl"
    yield "# zsh completion of sesamectl: as _sesamectl in a directory of your fpath, or source <(sesamectl completions zsh)"
    yield "_sesamectl_sessions() {"
    yield "  local -a ids shown going_on; local id name"
    yield f'  while IFS=$\'\\t\' read -r id name; do ids+=($id); shown+=("$id  $name"); done < <({SESSIONS}="$PREFIX")'
    yield "  going_on=(${(M)ids:#${PREFIX}*})"
    yield "  if (( $#going_on == $#ids )); then compadd -l -d shown -a ids; return; fi"
    yield '  compadd -U -i "$IPREFIX" -l -d shown -a ids'
    yield "  if (( $#ids > 1 )); then  # the first Tab lists them, the next ones go through them"
    yield "    if [[ -n $compstate[old_list] ]]; then compstate[insert]=menu; else compstate[insert]= compstate[list]='list force'; fi"
    yield "  fi"
    yield "}"
    yield "_sesamectl_sources() {"
    yield f'  local -a names; names=(${{(f)"$({SOURCES}="$PREFIX")"}})'
    yield "  compadd -a names"
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
        flags = (_zsh_flag(flag, name) for flag in command.flags for name in flag.names)
        specs = [*flags, "'--help[show help]'", *_zsh_operand(command)]
        yield f"    {name}) _arguments {' '.join(specs)};;"
    yield "    help) _describe command commands;;"
    yield "  esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = _sesamectl ]; then _sesamectl "$@"; else compdef _sesamectl sesamectl; fi'


def _zsh_flag(flag: Flag, name: str) -> str:
    text = flag.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    value = ""
    if flag.metavar:
        value = f":{flag.name}:{_zsh_action(flag)}"
    if flag.metavar and name.startswith("--"):
        name += "="  # the value may be in the same word
    return f"'{'*' if flag.many else ''}{_quote_zsh(f'{name}[{text}]{value}')}'"


def _zsh_action(flag: Flag) -> str:
    if flag.suggestions:
        return f"({' '.join(flag.suggestions)})"
    return {
        "DIR": "_files -/",
        "FILE": "_files",
        "SESSION": "_sesamectl_sessions",
        "SOURCE": "_sesamectl_sources",
    }.get(flag.metavar, " ")


def _zsh_operand(command: Command) -> tuple[str, ...]:
    if _takes_session(command):
        return (f"'{'*' if command.takes_many else '1'}:session:_sesamectl_sessions'",)
    if command.takes_many:  # else zsh completes no flag behind a word
        return ("'*:word:( )'",)
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
    yield "function __sesamectl_value  # what is typed of a value, also behind --flag="
    yield "  string replace -r -- '^--[a-z-]+=' '' (commandline -ct)"
    yield "end"
    yield "complete -c sesamectl -f"
    yield "complete -c sesamectl -n '__sesamectl_is \"\"' -a 'help version'"
    yield f"complete -c sesamectl -n '__sesamectl_is help' -a '{' '.join(COMMANDS)}'"
    for name, command in COMMANDS.items():
        yield f"complete -c sesamectl -n '__sesamectl_is \"\"' -a {name} -d {_quote_fish(command.summary)}"
        is_it = f"-n '__sesamectl_is {name}'"
        for flag in command.flags:
            names = f"-l {flag.name}" + (f" -s {flag.short}" if flag.short else "")
            yield f"complete -c sesamectl {is_it} {names}{_fish_value(flag)} -d {_quote_fish(flag.help)}"
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
    return {
        "DIR": " -x -a '(__fish_complete_directories)'",
        "FILE": " -r -F",
        "SESSION": f" -x -a '({SESSIONS}=(__sesamectl_value))'",
        "SOURCE": f" -x -a '({SOURCES}=(__sesamectl_value))'",
    }.get(flag.metavar, " -x")


def _quote_fish(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
