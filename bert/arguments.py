"""Settings as dataclasses become command-line flags; what is wrong with a call is one line.

A field made with `option` carries its help text, and `add_options` turns each into a flag, so a
default is written once: `hidden_size: int = option(192, "width …")` becomes `--hidden-size 192`.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, field, fields
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from bert.errors import UserError


def option(default: Any, explanation: str, **metadata: Any) -> Any:
    """A dataclass field with a help text; see `add_options`."""
    return field(default=default, metadata={"help": explanation, **metadata})


def add_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup, settings: type,
                without: Collection[str] = ()) -> None:
    """Give the parser one flag per field of a settings class, but for those `without`."""
    for item in fields(settings):
        if item.name in without:
            continue
        flag = "--" + item.name.replace("_", "-")
        text = item.metadata["help"].replace("%", "%%")
        if item.type is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=item.default,
                                help=text)
        elif isinstance(item.default, int | float | str):
            kind = str if isinstance(item.default, str) else type(item.default)
            parser.add_argument(flag, type=kind, default=item.default,
                                metavar=kind.__name__.upper(),
                                help=f"{text} (default: {item.default})")
        else:
            assert item.default is not MISSING  # everything else is set by code, not by a flag


def positive(text: str) -> int:
    """A whole number from 1 on, as the type of an argument."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def read_options(arguments: argparse.Namespace, settings: type) -> Any:
    """The settings object that the flags of `add_options` describe."""
    values = vars(arguments)
    return settings(**{item.name: values[item.name] for item in fields(settings)
                       if item.name in values})


def described_call(command: str) -> str:
    """The command that is running, as a file may keep it: of absolute paths only the last part,
    because the rest speaks of one machine."""
    shown = []
    words = sys.argv[1:]
    for word in words[words[:1] == [command]:]:
        flag, equals, value = word.rpartition("=")
        shown.append(flag + equals + (Path(value).name if Path(value).is_absolute() else value))
    return shlex.join(["python", "-m", "bert", command, *shown])


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line on stderr, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (see --help)\n")

    @contextmanager
    def one_sentence(self) -> Iterator[None]:
        """What a command finds wrong with its input or its files ends it with that sentence."""
        try:
            yield
        except (UserError, OSError) as error:
            self.error(str(error))


# ---------------------------------------------------------------------------------- lines


def text_lines(name: str) -> Iterator[str]:
    """The lines of a file, or of standard input if it is called -, without their ends. What is not
    UTF-8 is kept as it came."""
    source: int | str = sys.stdin.fileno() if name == "-" else name
    with open(source, encoding="utf-8-sig", errors="surrogateescape",
              closefd=name != "-") as lines:
        for line in lines:
            yield line.rstrip("\r\n")


@contextmanager
def plain_output(is_json: bool) -> Iterator[None]:
    """Standard output in which no letter is an error: JSON in UTF-8, all else in the terminal's own
    encoding. A reader that has seen enough, as in `| head`, ends the command quietly."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8" if is_json else None, errors="replace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
