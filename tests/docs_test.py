"""The documents can be read, and what they name is there.

    docs_test.py SOURCE [Class[.test]…]     SOURCE: the checkout

Of every page: a relative link leads to a file, and its #anchor to a heading there; a command line in a block of code names
a script, a program, a subcommand, options, keys and files that exist; GUIDE lists each subcommand. No sentence has more than
30 words, and a page's sentences have at most 22 in the mean. All pages together have at most 30,000 words, and a page at
most 3,000; blocks of code do not count. A gradient's way in ARCHITECTURE does not grow, and its files exist. docs/lab/ has
diaries: of them only the links count.
"""

import json
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent
WORDS_MAX = 30
WORDS_MEAN_MAX = 22
WORDS_OF_A_PAGE_MAX = 3_000
WORDS_OF_ALL_MAX = 30_000
STEPS_OF_A_GRADIENT_MAX = 15
READ_OF_A_GRADIENT_MAX = 30
FILES_OF_A_GRADIENT_MAX = 47  # with those that only hand it on


# ---- Markdown

def blocks(text):
    """The page as (kind, number of its first line, lines): "code", "heading", "table" or "prose", in order."""
    found, fence, after_blank, in_list = [], None, True, False

    def add(kind, number, line, joins):
        if joins and found and found[-1][0] == kind:
            found[-1][2].append(line)
        else:
            found.append((kind, number, [line]))

    previous = None  # the kind of the line before, None after a blank one
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if fence:
            if stripped.startswith(fence):
                fence, previous = None, None
            else:
                add("code", number, stripped, previous == "code")
                previous = "code"
            continue
        if stripped.startswith(("```", "~~~")):
            fence, previous = stripped[:3], None
            continue
        if not stripped:
            after_blank, previous = True, None
            continue
        indent = len(line) - len(line.lstrip())
        item = re.match(r"\s*([-*+]|\d+\.)\s", line)
        if item:
            in_list = True
        elif indent == 0 and after_blank:
            in_list = False
        deep = 6 if in_list else 4  # below a list's item four spaces are its next paragraph
        if indent >= deep and (after_blank or previous == "code") and not item:
            kind, joins = "code", previous == "code"
        elif stripped.startswith("#") and indent == 0:
            kind, joins = "heading", False
        elif stripped.startswith("|"):
            kind, joins = "table", previous == "table"
        else:
            kind, joins = "prose", previous == "prose" and not item
        add(kind, number, stripped, joins)
        after_blank, previous = False, kind
    return found


def plain(text):
    """The words that a reader reads: of a link its text, of code one word, of an HTML tag none."""
    text = re.sub(r"`+[^`]*`+", "Code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]*>", " ", text)
    return text.replace("*", "")


def sentences(text):
    text = re.sub(r"\b(e\.g|i\.e|cf|vs|et al|Fig|approx)\. ", r"\1 ", plain(text))
    # A full stop ends one where a blank and no small letter follows; a colon or a semicolon ends none.
    parts = re.split(r"(?<=[.!?])[\"')\]]*\s+(?=[^a-z])", text)
    return [part for part in (part.strip() for part in parts) if words(part)]


def words(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def long_sentences(text):
    """(line number, words, sentence) of those with more than WORDS_MAX words; and the words of every sentence of prose."""
    wrong, counts = [], []
    for kind, number, lines in blocks(text):
        if kind == "prose":
            output = sentences(" ".join(lines))
            counts += [words(sentence) for sentence in output]
        elif kind == "table":
            output = [sentence for line in lines for cell in cells(line) for sentence in sentences(cell)]
        else:
            continue
        wrong += [(number, words(sentence), sentence) for sentence in output if words(sentence) > WORDS_MAX]
    return wrong, counts


def page_words(text):
    """Those of headings, prose and tables: what is read. Code within a line is one word, a block of it none."""
    return sum(words(plain(" ".join(lines))) for kind, _, lines in blocks(text) if kind != "code")


def gradients_way(text):
    """Of each step of the table below "A gradient's way": the files to read, and those it goes through. One without a folder
    lies in that of the file before."""
    rows = re.findall(r"^\| \d+ \|.*", text.partition("## A gradient's way")[2].partition("\n## ")[0], re.MULTILINE)
    def files(cell):
        found, folder = [], ""
        for file in re.findall(r"`([\w/]+\.(?:cc|h))`", cell):
            folder = file.rpartition("/")[0] or folder
            found.append(f"{folder}/{file.rpartition('/')[2]}")
        return found

    return [(files(cells(row)[-1]), files(cells(row)[-2])) for row in rows]


def anchors(text):
    """What headings are called in links, as GitHub makes it."""
    found = set()
    for kind, _, lines in blocks(text):
        if kind == "heading":
            title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", lines[0].lstrip("#").strip()).replace("`", "")
            base = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            name, again = base, 0
            while name in found:
                again += 1
                name = f"{base}-{again}"
            found.add(name)
    return found


def links(text):
    for kind, number, lines in blocks(text):
        if kind != "code":
            prose = re.sub(r"`[^`]*`", "", " ".join(lines))
            for target in re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r'(?:src|srcset|href)="([^"]+)"', prose):
                if not re.match(r"[a-z]+:", target):
                    yield number, target


def broken_links(page, text):
    for number, target in links(text):
        path, _, anchor = target.partition("#")
        file = (SOURCE / page).parent / path if path else SOURCE / page
        if not file.exists():
            yield f"{page}:{number}: no such file: {target}"
        elif anchor and anchor not in anchors(text if not path else file.read_text(encoding="utf-8")):
            yield f"{page}:{number}: no such heading: {target}"


# ---- commands

def keys_of(text):
    """The paths of all keys of a YAML file, as a.b.c."""
    found, above = set(), []
    for indent, key in re.findall(r"^( *)(\w+):", text, re.MULTILINE):
        above[len(indent) // 2:] = [key]
        found.add(".".join(above))
    return found


def read(pattern):
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(SOURCE.glob(pattern)))


class Programs:
    """What can be called: as the build and the sources say it."""

    def __init__(self):
        made = "\n".join(read(pattern) for pattern in ("*/CMakeLists.txt", "tests/*/CMakeLists.txt", "tests/subjects/*.cmake"))
        self.programs = set(re.findall(r"paceline_(?:program|test|fuzz)\((\S+)", made))
        self.presets = {preset["name"] for preset in json.loads((SOURCE / "CMakePresets.json").read_text())["configurePresets"]}
        self.keys = keys_of((SOURCE / "configs/reference.yaml").read_text(encoding="utf-8"))
        tools = read("tools/*.cc") + read("sweep/*.cc")
        self.subcommands = set(re.findall(r'add_subcommand\("([\w-]+)"', tools))
        shared = read("common/config/*.cc")
        self.options = {"paceline": self.options_in(tools + shared),
                        "paceline-server": self.options_in(read("server/*.cc") + shared),
                        "paceline-worker": self.options_in(read("worker/*.cc") + shared)}

    @staticmethod
    def options_in(text):
        return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) | {"--help", "--version"}

    def program(self, word):
        """The program of ours that the first word of a command is, or None."""
        built = re.fullmatch(r"build/[^/]+/(?:bin|tests)/(\S+)", word)
        name = built[1] if built else word
        return name if built or name in self.options else None

    def faults(self, line):
        line = re.sub(r"[\[\]|]", " ", re.sub(r"\s#\s.*", "", re.sub(r"^\$ ", "", line)))  # [--optional | --other]
        line = re.sub(r"^(time|sudo|exec|python3?|(sbatch|salloc)( +--\S+)*) +", "", line)
        pieces = line.split()
        if not pieces or pieces[0].startswith("#"):
            return []
        first, name, found = pieces[0], self.program(pieces[0]), []
        module = re.match(r"-m +(paceline[\w.]*)", line)
        if module:
            first = f"python/{module[1].replace('.', '/')}.py"
            program = next((i for i, piece in enumerate(pieces) if piece.endswith(".py")), len(pieces))
            pieces = pieces[1:program + 1]  # what is after the program is its own
        given = {piece.partition("=")[0] for piece in pieces[1:] if re.match(r"--[a-z]", piece)}
        if first.startswith("build/") and first.split("/")[1] not in self.presets | {"<preset>"}:
            found.append(f"no such preset: {first}")
        if name:
            if name not in self.programs:
                found.append(f"no such program: {first}")
            if name == "paceline" and len(pieces) > 1 and re.fullmatch(r"[a-z-]+", pieces[1]) and pieces[1] not in self.subcommands | given:
                found.append(f"no such subcommand: {pieces[1]}")
            found += [f"{name} has no option {option}" for option in sorted(given - self.options.get(name, given))]
        elif re.match(r"(scripts|tests|tools|examples|python)/[\w./-]+\.(sh|py|sbatch)$", first):
            script = SOURCE / first
            if not script.is_file():
                return [f"no such file: {first}"]
            known = self.options_in(script.read_text(encoding="utf-8") + (read("tests/bench/*.py") if "bench" in first else ""))
            found += [f"{first} has no option {option}" for option in sorted(given - known)]
        elif first == "cmake" and "--preset" in pieces:
            preset = pieces[pieces.index("--preset") + 1]
            return [] if preset in self.presets else [f"no such preset: {preset}"]
        else:
            return []
        if not first.startswith("tests/"):
            settings = {piece.strip("'\"").partition("=")[0] for piece in pieces[1:] if re.match(r"['\"]?[a-z_]\w*(\.[a-z_]\w*)+=", piece)}
            found += [f"no such key: {key}" for key in sorted(settings - self.keys - {"key.path"})]
        return found + [f"no such file: {piece}" for piece in pieces[1:]
                        if re.fullmatch(r"(configs|scripts|tests|tools|examples)/[\w./-]+", piece) and not (SOURCE / piece).exists()]


def commands(text):
    """(line number, command) of each command in blocks of code; what \\ continues is one."""
    for kind, number, lines in blocks(text):
        if kind == "code":
            joined = "\n".join(lines).replace("\\\n", "")
            yield from ((number, line.strip()) for line in joined.splitlines())


# ---- tests

def pages():
    return ["README.md", *sorted(str(path.relative_to(SOURCE)) for path in (SOURCE / "docs").glob("*.md"))]


def text_of(page):
    return (SOURCE / page).read_text(encoding="utf-8")


class Pages(unittest.TestCase):
    """The documents of this checkout."""

    maxDiff = None

    def test_no_sentence_is_long(self):
        for page in pages():
            wrong, counts = long_sentences(text_of(page))
            for number, count, sentence in wrong:
                with self.subTest(page=page, line=number):
                    self.fail(f"{page}:{number}: {count} words, at most {WORDS_MAX}: {sentence}")
            with self.subTest(page=page):
                self.assertLessEqual(sum(counts) / max(1, len(counts)), WORDS_MEAN_MAX, f"{page}: words of a sentence, mean")

    def test_the_pages_are_short(self):
        counts = {page: page_words(text_of(page)) for page in pages()}
        self.assertEqual({page: count for page, count in counts.items() if count > WORDS_OF_A_PAGE_MAX}, {})
        self.assertLessEqual(sum(counts.values()), WORDS_OF_ALL_MAX, sorted(counts.items(), key=lambda item: -item[1]))

    def test_a_gradients_way_is_short_and_its_files_exist(self):
        steps = gradients_way(text_of("docs/ARCHITECTURE.md"))
        to_read = [file for read, _ in steps for file in read]
        files = to_read + [file for _, through in steps for file in through]
        self.assertIn(len(steps), range(1, STEPS_OF_A_GRADIENT_MAX + 1))
        self.assertTrue(all(read for read, _ in steps), steps)
        self.assertLessEqual(len(to_read), READ_OF_A_GRADIENT_MAX)
        self.assertLessEqual(len(files), FILES_OF_A_GRADIENT_MAX)
        self.assertEqual(len(files), len(set(files)))
        self.assertEqual([file for file in files if not (SOURCE / file).is_file()], [])

    def test_every_link_leads_somewhere(self):
        lab = sorted(str(path.relative_to(SOURCE)) for path in (SOURCE / "docs/lab").glob("*.md"))
        self.assertEqual([fault for page in pages() + lab for fault in broken_links(page, text_of(page))], [])

    def test_every_command_exists(self):
        programs = Programs()
        self.assertEqual([f"{page}:{number}: {fault}" for page in pages() for number, line in commands(text_of(page))
                          for fault in programs.faults(line)], [])

    def test_the_guide_lists_every_subcommand(self):
        table = text_of("docs/GUIDE.md").partition("\n## All commands\n")[2].partition("\n## ")[0]
        first = "".join(cells(line)[0] for line in table.splitlines() if line.startswith("|"))
        self.assertEqual({word for name in re.findall(r"`([^`]+)`", first) for word in name.split()} - {"paceline"}, Programs().subcommands)

    def test_a_diary_says_so_and_where_the_present_is(self):
        for path in sorted((SOURCE / "docs/lab").glob("*.md")):
            self.assertRegex(path.read_text(encoding="utf-8").splitlines()[0], r"^> A diary: .*\]\(\.\./[\w.]+\)", path.name)


class Rules(unittest.TestCase):
    """That a bad page is found, and a good one is not."""

    def test_a_long_sentence_is_found_in_prose_in_a_list_and_in_a_table(self):
        long = " ".join(["word"] * (WORDS_MAX + 1)) + "."
        right = " ".join(["word"] * WORDS_MAX) + "."
        for page in (f"Short. {long.capitalize()}", f"- one\n- {long}", f"| a | b |\n|---|---|\n| short | {long} |", f"# Title\n\nShort.\n{long.capitalize()}"):
            self.assertEqual([count for _, count, _ in long_sentences(page)[0]], [WORDS_MAX + 1], page)
        for page in (right, f"{right} {right.capitalize()}", f"- {right}\n- {right}", f"    {long}", f"```\n{long}\n```", f"Of:\n\n    {long}\n\n{right}"):
            self.assertEqual(long_sentences(page)[0], [], page)

    def test_what_counts_as_a_sentence_and_as_a_word(self):
        self.assertEqual([words(part) for part in sentences("It is 0.85 of `a b c`, e.g. here. So [two words](x.md#y) – stand.")], [7, 4])
        self.assertEqual(long_sentences("One two. Three\nfour five.\n\n- six\n- seven eight\n")[1], [2, 3, 1, 2])

    def test_words_of_a_page_are_those_that_are_read(self):
        page = "# Two words\n\nOne `a b c` of [two words](x.md) – and\n\n    no code\n\n| a | b |\n|---|---|\n| 1.5 | `x y` z |\n"
        self.assertEqual(page_words(page), 2 + 6 + 5)

    def test_a_file_without_a_folder_lies_in_that_of_the_file_before(self):
        page = ("## A gradient's way\n\n| | do | through | read |\n|---|---|---|---|\n| 1 | x | | `a/b/c.h`, `c.cc` |\n"
                "| 2 | `no.cc` | `f/g.cc`, `h.cc` | `d/e.cc` |\n\n## Other\n\n| 3 | x | `f/i.cc` | `f/j.cc` |\n")
        self.assertEqual(gradients_way(page), [(["a/b/c.h", "a/b/c.cc"], []), (["d/e.cc"], ["f/g.cc", "f/h.cc"])])

    def test_a_broken_link_is_found(self):
        page = "[a](README.md) [b](nowhere.md) [c](#title) [d](#none) [e](https://x.y/z) `[f](nowhere.md)`\n\n# Title\n\n    [g](no.md)\n"
        self.assertEqual(list(broken_links("README.md", page)),
                         ["README.md:1: no such file: nowhere.md", "README.md:1: no such heading: #none"])
        self.assertEqual(anchors("# Two words, `code`: [link](x)\n\n# Same\n\n# Same"), {"two-words-code-link", "same", "same-1"})

    def test_a_command_that_does_not_exist_is_found(self):
        programs = Programs()
        for line in ("scripts/none.sh", "build/release/bin/none", "build/check/tests/none", "build/none/bin/paceline report runs/a", "paceline nothing runs/a",
                     "paceline report --nothing runs/a", "scripts/run_local.sh --nothing", "$ paceline nothing", "cmake --preset none",
                     "scripts/run_local.sh configs/none.yaml", "python3 tests/none.py", "paceline-server my.yaml --nodes 1",
                     "scripts/run_local.sh my.yaml sync.treshold=3", "python -m paceline.lunch my.yaml train.py", "python -m paceline.launch my.yaml --nothing train.py",
                     "python3 -m paceline.launch my.yaml sync.treshold=3 train.py", "python -m paceline.launch my.yaml examples/none.py",
                     'paceline-server my.yaml "train.total_iteration=8000"', "paceline-server my.yaml train.optimizer.beta3=0.9",
                     "sbatch --ntasks=4 scripts/run_slurm.sh my.yaml cluster.node=4", "salloc scripts/none.sh", "sbatch examples/slurm/none.sbatch my.yaml"):
            self.assertEqual(len(programs.faults(line)), 1, line)
        for line in ("scripts/run_local.sh configs/bsp.yaml --out runs/a   # --nothing", "build/release/bin/paceline report --html a.html runs/a",
                     "paceline-server my.yaml --shard 1", "cmake --preset release", "build/check/tests/params_test", "version 117  clock 117", "", "run: {out: runs/mine}",
                     "paceline data synthesize --out data/synthetic", "paceline-server my.yaml 'run.name=a' run.seed=1,2",
                     "python -m paceline.launch [--existing replace] my.yaml [key.path=value …] train.py --epochs 3 model.width=8", "python3 -m venv env",
                     'paceline-server my.yaml "train.optimizer.beta1=0.9"', "sbatch --ntasks=4 scripts/run_slurm.sh my.yaml cluster.nodes=4"):
            self.assertEqual(programs.faults(line), [], line)
        self.assertEqual(list(commands("Do:\n\n    scripts/a.sh \\\n      --b\n    c\n")), [(3, "scripts/a.sh --b"), (3, "c")])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=1)
