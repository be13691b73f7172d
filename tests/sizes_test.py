"""What a reader opens stays small: no source file has more than 500 lines, no class of the product more than 40 methods. Where
branches meet, both grow without anybody having meant it.

    python3 tests/sizes_test.py [SOURCE]     SOURCE: the checkout
"""

import ast
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PRODUCT = ("common", "server", "worker", "simulate", "sweep", "tools", "python", "include")
LINES_MAX, METHODS_MAX = 500, 40
# Larger, each for a reason (docs/lab/SIZE.md).
EXCEPTIONS = {("python/paceline/torch/attached.py", "Attached"): 42}

# What says nothing of a class: text, comments, and lines of the preprocessor.
NOISE = re.compile(r"""(")(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|//[^\n]*|^\s*#(?:[^\n]*\\\n)*[^\n]*""", re.MULTILINE)
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*|alignas\([^()]*\)\s*)?(?:\w+::)*(\w+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
ARGUMENTS = re.compile(r"<[^<>]*>")


def files(folders, *suffixes):
    return sorted(path for folder in folders for path in (SOURCE / folder).rglob("*") if path.suffix in suffixes)


def members(text, begin):
    """The statements of the body that begins there, without what braces within it hold."""
    depth, flat = 0, ""
    for piece in re.split(r"([{}])", text[begin:]):
        depth += {"{": 1, "}": -1}.get(piece, 0)
        if depth == 0 and piece == "}":
            return re.sub(r"\b(?:public|private|protected):", "", flat).split(";")
        if piece == "}":
            flat += ";"
        elif depth == 1 and piece != "{":
            flat += piece
    return []


def is_method(statement):
    while statement != (statement := ARGUMENTS.sub("", statement)):
        pass
    head = re.sub(r"operator\s*[^\s\w]+\s*\(", "operator_(", statement).partition("=")[0]
    is_other = re.match(r"\s*(?:using|friend|typedef|static_assert|enum|struct|class|$)", statement)
    return not is_other and "= delete" not in statement and re.search(r"[\w~]\s*\(", head) is not None


def methods(text):
    """How many each class declares, constructors too, but for what it deletes."""
    text = NOISE.sub(r"\1", text)
    return [(found[1], sum(map(is_method, members(text, found.end() - 1)))) for found in CLASS.finditer(text)]


def methods_of_python(text):
    return [(each.name, sum(isinstance(of, (ast.FunctionDef, ast.AsyncFunctionDef)) for of in each.body))
            for each in ast.walk(ast.parse(text)) if isinstance(each, ast.ClassDef)]


class Sizes(unittest.TestCase):
    def test_no_file_is_long(self):
        lines = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8").count("\n")
                 for path in files((*PRODUCT, "tests"), ".h", ".cc", ".cu", ".cuh", ".py")}
        self.assertEqual({path: count for path, count in lines.items() if count > LINES_MAX}, {})

    def test_no_class_is_large(self):
        counted = [(str(path.relative_to(SOURCE)), name, count) for path in files(PRODUCT, ".h", ".cc", ".cu", ".cuh", ".py")
                   for name, count in (methods_of_python if path.suffix == ".py" else methods)(path.read_text(encoding="utf-8"))]
        self.assertEqual({(path, name): count for path, name, count in counted if count > METHODS_MAX}, EXCEPTIONS)
        for of in (".h", ".py"):
            self.assertGreater(max(count for path, _, count in counted if path.endswith(of)), METHODS_MAX // 2)

    def test_what_counts_as_a_method(self):
        text = ("class A final : public B {\n public:\n  A(int a = f());  // so() it is\n  ~A();\n  A(const A&) = delete;\n"
                "  int b() const { return c(\"d()\"); }\n  using E = int();\n  struct F { int g(); };\n  std::function<void(int)> h;\n"
                "  bool operator==(const A&) const = default;\n  int i = j();\n  template <typename T> T k(T);\n};\n")
        self.assertEqual(methods(text), [("A", 5), ("F", 1)])
        self.assertEqual(methods("class [[nodiscard]] A {\n  int b();\n};\nstruct alignas(8) A::C {\n  int d();\n};\n"), [("A", 1), ("C", 1)])
        self.assertEqual(methods_of_python("class A:\n    def b(self): pass\n    async def c(self): pass\n    d = 1\n"), [("A", 2)])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SOURCE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=1)
