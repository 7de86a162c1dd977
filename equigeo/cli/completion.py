"""``equigeo completion``: shell completion of commands, options and their values.

The scripts are made from the parser and hold all they say: pressing the key starts no Python.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import equigeo
from equigeo.cli.main import build_parser
from equigeo.cli.parser import PROGRAM, Parser

_PATHS: Final = {"DIR", "FILE", "ARCHIVE"}  # in the names of values


def add_options(parser: Parser) -> None:
    """Add the shell argument."""
    parser.explain(
        "0, or 2 after an error.",
        "source <(equigeo completion bash)        # or this line in ~/.bashrc",
        "source <(equigeo completion zsh)         # behind compinit in ~/.zshrc",
        "equigeo completion fish > ~/.config/fish/completions/equigeo.fish",
    )  # fmt: skip
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="for which shell")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print(f"# Completion of {PROGRAM} {equigeo.__version__} by {options.shell}")
    print(_SCRIPTS[options.shell]([*_places(build_parser(), PROGRAM)]))
    return 0


@dataclass(frozen=True)
class _Value:
    """Possible values at one position of a command: words, paths or anything."""

    words: tuple[str, ...]
    is_path: bool

    @classmethod
    def of(cls, action: argparse.Action) -> _Value:
        """Build from the choices, type and name of a value."""
        parts = str(action.metavar or "").split("|")
        words = tuple(map(str, action.choices or (x for x in parts if x.isalpha() and x.islower())))
        return cls(words, action.type is Path or not _PATHS.isdisjoint(parts))


@dataclass(frozen=True)
class _Place:
    """Command typed so far, with its possible continuations."""

    typed: str
    commands: dict[str, str]
    options: dict[str, str]
    values: dict[str, _Value]  # of options that take one
    positional: _Value


def _places(parser: Parser, typed: str) -> Iterator[_Place]:
    """Describe a command and its subcommands after importing their modules."""
    parser.fill()
    commands: dict[str, Parser] = {}
    about: dict[str, str] = {}
    flags = [action for action in parser._actions if action.option_strings]
    positional = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = dict(action.choices)
            about = {choice.dest: _brief(choice) for choice in action._choices_actions}
        elif not action.option_strings:
            positional.append(_Value.of(action))
    yield _Place(
        typed,
        {name: about.get(name, "") for name in commands},
        {flag: _brief(action) for action in flags for flag in action.option_strings},
        {
            flag: _Value.of(action)
            for action in flags
            for flag in action.option_strings
            if action.nargs != 0
        },
        _Value(
            tuple(word for value in positional for word in value.words),
            any(value.is_path for value in positional),
        ),
    )
    for name, below in commands.items():
        yield from _places(below, f"{typed} {name}")


def _brief(action: argparse.Action) -> str:
    """Return the help up to its first remark as one line of text."""
    return " ".join((action.help or "").partition(" (")[0].replace("%%", "%").split())


def _patterns(places: Iterable[_Place]) -> str:
    """Return the words that lead from one command to the next, as patterns of ``case``."""
    return "|".join(f"'{p.typed} {name}'" for p in places for name in p.commands)


def _by_value(places: Iterable[_Place]) -> dict[_Value, str]:
    """Group options by their possible values, as patterns of ``case``."""
    found: dict[_Value, list[str]] = {}
    for place in places:
        for flag, value in place.values.items():
            found.setdefault(value, []).append(f"'{place.typed} {flag}'")
    return {value: "|".join(patterns) for value, patterns in found.items()}


def _quoted(words: Iterable[str]) -> str:
    return " ".join(map(shlex.quote, words))


def _bash(places: list[_Place]) -> str:
    values = [
        f"        {patterns}) words={shlex.quote(' '.join(value.words))}"
        f" files={'1' if value.is_path else ''} ;;"
        for value, patterns in _by_value(places).items()
    ]
    starts = [
        f"        '{p.typed}') options='{' '.join(p.options)}'"
        f" words='{' '.join([*p.commands, *p.positional.words])}'"
        f" files={'1' if p.positional.is_path else ''} ;;"
        for p in places
    ]
    return "\n".join(
        [
            "_equigeo() {",
            "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
            f"    local at={PROGRAM} options= words= files= i",
            "    if [[ $word == = ]]; then  # bash splits --option=value there",
            "        word=",
            "    elif [[ $before == = ]]; then",
            "        before=${COMP_WORDS[COMP_CWORD-2]}",
            "    fi",
            "    for ((i = 1; i < COMP_CWORD; i++)); do",
            '        case "$at ${COMP_WORDS[i]}" in',
            f'        {_patterns(places)}) at="$at ${{COMP_WORDS[i]}}" ;;',
            "        esac",
            "    done",
            '    case "$at $before" in',
            *values,
            "    *)",
            "        case $at in",
            *starts,
            "        esac",
            '        if [[ $word == -* || -z $words$files ]]; then words=$options files=""; fi ;;',
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "    if [[ $files ]]; then",
            "        compopt -o filenames 2>/dev/null",
            "        local IFS=$'\\n'",
            '        COMPREPLY+=($(compgen -f -- "$word"))',
            "    fi",
            "}",
            f"complete -F _equigeo {PROGRAM}",
        ]
    )


def _described(words: dict[str, str]) -> str:
    """Format words and descriptions for ``_describe`` of zsh."""
    return _quoted(f"{word}:{about}" for word, about in words.items())


def _zsh(places: list[_Place]) -> str:
    values = [
        f"        ({patterns}) choices=({_quoted(value.words)})"
        f" files={'1' if value.is_path else ''} known=1 ;;"
        for value, patterns in _by_value(places).items()
    ]
    starts = [
        f"        ('{p.typed}') commands=({_described(p.commands)})"
        f" options=({_described(p.options)}) choices=({_quoted(p.positional.words)})"
        f" files={'1' if p.positional.is_path else ''} ;;"
        for p in places
    ]
    return "\n".join(
        [
            "_equigeo() {",
            f"    local at={PROGRAM} before=${{words[CURRENT-1]}} word files= known=",
            "    local -a commands options choices",
            "    for word in ${words[2,CURRENT-1]}; do",
            '        case "$at $word" in',
            f'        ({_patterns(places)}) at="$at $word" ;;',
            "        esac",
            "    done",
            '    case "$at $before" in',
            *values,
            "    esac",
            "    if [[ -z $known ]]; then",
            "        case $at in",
            *starts,
            "        esac",
            "    fi",
            "    (( $#commands )) && _describe -t commands command commands",
            "    (( $#choices )) && compadd -a choices",
            "    [[ -n $files ]] && _files",
            "    (( $#options )) && _describe -o -t options option options",
            "    return 0",
            "}",
            f"compdef _equigeo {PROGRAM}",
        ]
    )


def _fish(places: list[_Place]) -> str:
    lines = [
        "function __equigeo_at",
        f"    set -l at {PROGRAM}",
        "    for word in (commandline -opc)[2..-1]",
        '        switch "$at $word"',
        f"            case {_patterns(places).replace('|', ' ')}",
        '                set at "$at $word"',
        "        end",
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        f"complete -c {PROGRAM} -f",
    ]
    for place in places:
        here = f"complete -c {PROGRAM} -n \"__equigeo_at '{place.typed}'\""
        for name, about in place.commands.items():
            lines.append(f"{here} -a {name} -d {_fish_quoted(about)}")
        if place.positional.words:
            lines.append(f"{here} -a '{' '.join(place.positional.words)}'")
        if place.positional.is_path:
            lines.append(f"{here} -F")
        for flag, about in place.options.items():
            name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"{here} {name}{_fish_value(place, flag)} -d {_fish_quoted(about)}")
    return "\n".join(lines)


def _fish_value(place: _Place, flag: str) -> str:
    value = place.values.get(flag)
    if value is None:
        return ""
    words = f" -a '{' '.join(value.words)}'" if value.words else ""
    return f" -r{' -F' if value.is_path else ''}{words}"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SCRIPTS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
