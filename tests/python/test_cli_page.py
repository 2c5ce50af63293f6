"""docs/cli.md and the program say the same: every verb, every flag, every default."""

import functools
import pathlib
import re
import subprocess
import sys

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "cli.md"
PROGRAM = pathlib.Path(sys.executable).with_name("cellfeed")
FLAG = re.compile(r"--[a-z][a-z-]*")


@functools.cache
def help_of(*verb: str) -> str:
    done = subprocess.run([PROGRAM, *verb, "--help"], capture_output=True, text=True, check=True)
    return done.stdout


def listed_verbs(*verb: str) -> list[str]:
    listed = help_of(*verb).partition("Subcommands:\n")[2].split("\n\n")[0]
    return re.findall(r"^  (\w+)", listed, re.MULTILINE)


def verbs() -> list[str]:
    """Of the program, and those of a verb that has its own behind it: "series", "series build"."""
    return [
        name
        for verb in listed_verbs()
        for name in (verb, *(f"{verb} {v}" for v in listed_verbs(verb)))
    ]


def flags_of(verb: str) -> dict[str, str]:
    """Each flag with its default; empty for none."""
    flags, last = {}, ""
    for line in help_of(*verb.split()).split("Options:\n")[1].split("\n\n")[0].splitlines():
        named = re.match(r"  (?:-\w,)?(--[a-z][a-z-]*)", line)
        if named:
            last = named[1]
            flags[last] = ""
        if "Not in this version" in line:  # accepted only to say so
            del flags[last]
        default = re.search(r"\[default: (.*?)\]", line)
        if default:
            flags[last] = default[1]
    return flags


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table_rows(text: str) -> list[tuple[str, str]]:
    """Flag and default of each row of the tables."""
    rows = re.findall(r"^\| `(--[a-z-]+)[^|`]*(?:\\\|[^|`]*)*`[^|]*\|(.*?)\|", text, re.MULTILINE)
    return [(flag, default.strip()) for flag, default in rows]


def same(default: str, documented: str) -> bool:
    return default.replace(" ", "") == documented.replace(" ", "").replace("`", "")


def test_the_page_has_the_verbs_of_the_program():
    assert {name for name in sections() if name in verbs()} == set(verbs())
    usage = PAGE.read_text().split("```")[1]
    assert re.findall(r"^cellfeed (\w+)", usage, re.MULTILINE) == listed_verbs()


@pytest.mark.parametrize("verb", verbs())
def test_a_section_has_the_flags_of_its_verb_with_their_defaults(verb):
    flags = flags_of(verb)
    assert flags.pop("--help") == ""
    shared = {
        flag: default
        for flag, default in table_rows(sections()["Options of several verbs"])
        if flag in flags
    }
    own = dict(table_rows(sections()[verb]))
    assert shared.keys().isdisjoint(own) or all(own[f] != shared[f] for f in own if f in shared)
    assert sorted({**shared, **own}) == sorted(flags)
    for flag, default in {**shared, **own}.items():
        expected = flags[flag] or ("off" if default == "off" else "")
        assert same(expected, default), f"{verb} {flag}: {flags[flag]!r}, documented {default!r}"


def test_text_names_no_flag_that_is_not_there():
    known = {"--version", *(flag for verb in verbs() for flag in flags_of(verb))}
    assert set(FLAG.findall(PAGE.read_text())) <= known
