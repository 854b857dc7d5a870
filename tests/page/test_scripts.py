"""All scripts of the page as one file."""

import re

from bert.drawing.texts import PAGE
from bert.page.scripts import as_function, as_script, scripts, served


def test_every_script_is_in_the_file_and_everything_it_uses_as_well():
    names = {path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*.js")}
    assert set(re.findall(r'^"([\w/]+\.js)": async', scripts(), re.MULTILINE)) == names
    assert set(re.findall(r'await use\("([^"]+)"\)', scripts())) <= names
    assert "from \"" not in scripts() and "import(" not in scripts()


def test_no_script_can_end_the_element_that_holds_it():
    assert "</script" not in scripts().lower()
    assert as_script({"text": "</script><b>"}) == '{"text":"\\u003c/script>\\u003cb>"}'


def test_a_script_gives_what_it_exports(tmp_path, monkeypatch):
    monkeypatch.setattr("bert.page.scripts.PAGE", tmp_path)
    folder = tmp_path / "views"
    folder.mkdir()
    (folder / "one.js").write_text(
        'import { a, b as c } from "../common/two.js";\n'
        "export const X = a;\nexport async function run(name) {\n"
        "  return import(`../studies/${name}.js`);\n}\n")
    assert as_function(folder / "one.js") == (
        '"views/one.js": async () => {\nconst { a, b: c } = await use("common/two.js");\n'
        "const X = a;\nasync function run(name) {\n  return use(`studies/${name}.js`);\n}\n"
        "return { X, run };\n},\n")


def test_another_version_has_another_address(monkeypatch):
    before = list(served())
    served.cache_clear()
    monkeypatch.setattr("bert.page.scripts.scripts", lambda: "const changed = 1;")
    try:
        assert [path for path in served() if path not in before] == [
            path for path in served() if path.endswith(".js")]
    finally:
        served.cache_clear()
