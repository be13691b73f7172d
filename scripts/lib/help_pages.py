"""Man pages and completions for bash, made of what the programs say with --help.

    help_pages.py BIN OUT     writes OUT/man1/PROGRAM.1.gz, of `paceline` also one for each subcommand, and OUT/completions/PROGRAM
"""

import gzip
import pathlib
import re
import subprocess
import sys

PROGRAMS = ("paceline", "paceline-server", "paceline-worker")


class Help:
    """What one --help says: a summary, the usage, and sections of (term, explanation)."""

    def __init__(self, program, path=()):
        said = subprocess.run([program, *path, "--help"], capture_output=True, text=True, check=True).stdout
        self.name = " ".join((program.name, *path))
        lines = said.splitlines()
        self.summary = lines[0].strip()
        self.usage = next(line for line in lines if line.startswith("Usage:"))[len("Usage:"):].strip()
        self.sections = {}
        rows = None
        for line in lines[lines.index(f"Usage: {self.usage}") + 1:]:
            if re.fullmatch(r"\S.*:", line):
                rows = self.sections.setdefault(line[:-1], [])
            elif rows is not None and line.startswith(" " * 10) and rows:  # goes on
                rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}".strip())
            elif rows is not None and line.startswith("  "):
                term, _, text = line.strip().partition("  ")
                rows.append((term, text.strip()))
        self.subcommands = [Help(program, (*path, term)) for term, _ in self.sections.get("Subcommands", [])]

    def options(self):
        """As one types them."""
        terms = [term.partition(" Excludes:")[0] for term, _ in self.sections.get("Options", [])]
        return [word for term in terms for word in re.findall(r"(?:^|,)(--?[A-Za-z][\w-]*)", term)]

    def all(self):
        return [self, *(each for child in self.subcommands for each in child.all())]


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def man_page(page, version):
    name = page.name.replace(" ", "-")
    lines = [f'.TH {name.upper()} 1 "" "paceline {version}" "User Commands"', ".SH NAME", f"{escaped(name)} \\- {escaped(page.summary)}",
             ".SH SYNOPSIS", escaped(page.usage)]
    for title, rows in page.sections.items():
        lines.append(f".SH {title.upper()}")
        for term, text in rows:
            lines += [".TP", f"\\fB{escaped(term)}\\fR", escaped(text) or "\\&"]
    if page.subcommands:
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{escaped(child.name.replace(' ', '-'))}\\fR(1)" for child in page.subcommands)]
    return "\n".join(lines) + "\n"


def completion(page):
    """What may follow the subcommands that are typed already; file names, too."""
    function = "_" + re.sub(r"\W", "_", page.name)
    words = {each.name: " ".join([*(child.name.split()[-1] for child in each.subcommands), *each.options()]) for each in page.all()}
    cases = "\n".join(f"    '{name}') words='{follow}' ;;" for name, follow in words.items())
    return f"""# Completion for {page.name}; made of its --help.
{function}() {{
  local words='' path={page.name} typed=${{COMP_WORDS[COMP_CWORD]}} i
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ '|{"|".join(words)}|' != *"|$path ${{COMP_WORDS[i]}}|"* ]] || path+=" ${{COMP_WORDS[i]}}"
  done
  case "$path" in
{cases}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$typed"; [[ $typed == -* ]] || compgen -f -- "$typed")
}}
complete -o filenames -F {function} {page.name}
"""


def main():
    programs, out = map(pathlib.Path, sys.argv[1:])
    for folder in ("man1", "completions"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        version = subprocess.run([programs / name, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        page = Help(programs / name)
        for each in page.all():
            with gzip.GzipFile(out / "man1" / f"{each.name.replace(' ', '-')}.1.gz", "wb", mtime=0) as file:
                file.write(man_page(each, version).encode())
        (out / "completions" / name).write_text(completion(page), encoding="utf-8")


if __name__ == "__main__":
    main()
