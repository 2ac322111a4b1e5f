"""Rules of the architecture, checked in the sources with `ast`: which module may import which, and read-only plans.

The sources are those of the imported package, so that an installed wheel is checked as well.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import Evidence, SmallNetwork, loopy_networks, networks, networks_with_evidence

import fgrn
from fgrn import SISO, Diverter, Network, Source, Variable
from fgrn.engines import installed_engines
from fgrn.graph.supervisor import make_plan
from fgrn.graph.wiring import Wiring
from fgrn.plan.schedule import Programs

ENGINES = installed_engines()


ROOT = Path(fgrn.__file__).parent
SOURCES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
FOLDERS = (
    "core", "tables", "plan", "engines", "flow", "learning", "queries", "statistics", "graph", "bayes", "files",
    "estimators", "plots", "page", "showcase", "cli",
)  # fmt: skip
"""A folder imports only itself and folders before it."""

BACKWARDS = {
    ("tables.schema", "learning.encoding"): "Schema.infer of a table larger than memory",
    ("learning.checkpoints", "files.checkpoint_file"): "a checkpoint is read and written",
    ("graph.network", "files.model_file"): "Network.save",
    ("graph.network", "page.notebook"): "Network._repr_html_",
    ("bayes.factored", "page.notebook"): "BayesianNetwork._repr_html_",
    ("estimators._tables", "page.notebook"): "the HTML of a fitted estimator",
    ("bayes.factored", "files.model_file"): "BayesianNetwork.save",
    ("bayes.influence", "files.model_file"): "InfluenceDiagram.save",
    ("bayes.dynamic", "files.model_file"): "DynamicBayesianNetwork.save",
    ("bayes.tree_mixture", "files.model_file"): "TreeMixture.save",
    ("files.estimator_file", "estimators"): "an estimator is restored",
    ("files.estimator_file", "estimators._base"): "an estimator is restored",
    ("files.estimator_file", "estimators._state_count"): "an estimator is restored",
    ("files.estimator_file", "estimators._sequence_tables"): "an estimator is restored",
    ("files.estimator_file", "estimators._class_labels"): "an estimator is restored",
    ("files.model_file", "estimators._base"): "an estimator is saved",
}
"""The imports from later folders and their reasons: all are inside functions, or for type checkers."""

BESIDE_FOLDERS = {"", "__main__", "_moved", "_version", "warming"}
"""The modules beside the folders, which may import all of them."""

FLOW_MAY_KNOW = ("core.", "plan.", "flow.", "tables.encoded", "tables.frames", "tables.missing", "tables.outputs")

SAME_NAME = {
    "Loaded": "the Engine protocol and its implementations",
    "Prepared": "the Engine protocol and its implementations",
    "load": "public: fgrn.load, fgrn.datasets.load",
    "save": "public: fgrn.plots.save, and the saving of models",
    "read": "public: fgrn.io.table_file.read",
    "write": "public: fgrn.io.table_file.write",
    "prototypes": "public: fgrn.plots.prototypes; and the command",
    "explain": "the command, and what it runs",
    "explore": "the command, and what it runs",
    "search": "the command, and what it runs",
}
"""Functions and classes of one name in several modules that mean the same, or are public under that name."""

SAME_CONSTANT = {
    **dict.fromkeys(
        ("SOURCE", "FORWARD", "BACKWARD", "DIVERT"), "the steps of plans and engines, and operations of tapes"
    ),
    "UNKNOWN": "one constant, in two places for those who import it",
}
"""Constants of one name that are imported from several modules, and mean the same."""

SAME_FILE = {
    "cycles": "the paper's cycles in the CPU engine, and the kernel for them",
    "stars": "networks with one Diverter in the CPU engine, and the kernels for them",
}
"""Files of one name in several folders: one subject at two levels."""

ONLY_RAISES = {
    ("bayes/markov.py", "MarkovNetwork.learn"): "people look for it, and are told what to learn instead",
    (
        "tables/encoded.py",
        "EncodedTable.local_rows",
    ): "of rows on other machines; tables in memory or on disk have their own",
}
"""Methods that do nothing but raise an error, and why; what a class cannot do is not among its methods."""

MUTABLE = {"Counter", "bytearray", "defaultdict", "deque", "dict", "list", "set"}
MUTABLE_FIELDS = {
    "bayes/elimination.py PrunedModel._layouts",  # kept for the next question, not a part of its value
    "showcase/datasets.py Dataset.columns",  # a table as people have it: columns are lists
    "tables/stream.py StreamPart.notes",  # where whoever reads the part leaves its warnings
}
"""Fields of frozen classes that may change; all others are tuples, or `Mapping` and `Sequence`, which mypy guards."""

HEAVY = (
    "numba", "torch", "dask", "distributed", "sklearn", "pandas", "polars", "pyarrow", "matplotlib", "scipy",
    "narwhals", "lark",
)  # fmt: skip
LONGEST_FILE = 480  # about 450 is a sign that a file has two ideas; a class is not split for thirty lines

every_file = pytest.mark.parametrize("name", SOURCES)


# Reading imports


def is_type_checking(node: ast.AST) -> bool:
    """Whether this is the `if TYPE_CHECKING:` whose body only a type checker reads."""
    if not isinstance(node, ast.If):
        return False
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def walk(node: ast.AST, with_type_checking: bool) -> Iterator[ast.AST]:
    """All nodes of a tree, with or without what only a type checker reads; expressions hold no imports."""
    if isinstance(node, ast.expr):
        return
    yield node
    skip_body = is_type_checking(node) and not with_type_checking
    for field, value in ast.iter_fields(node):
        if skip_body and field == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk(child, with_type_checking)


@cache
def syntax(file: str) -> ast.Module:
    """The syntax tree of a file of the package; nobody changes it."""
    return ast.parse(SOURCES[file].read_text(encoding="utf-8"))


def imported(tree: ast.AST, file: str, with_type_checking: bool = True) -> set[str]:
    """The dotted names of all modules a file imports, wherever in it; `file` is its place below the package.

    `from .engines import cpu` is the module engines.cpu, `from .engines import Engine` the package engines.
    """
    package = ["fgrn", *Path(file).parent.parts]
    found: set[str] = set()
    for node in walk(tree, with_type_checking):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{module}.{name.name}" if is_module(module, name.name) else module for name in node.names}
    return found


def is_module(package: str, name: str) -> bool:
    """Whether a name in a package of ours is a file or folder, and not something defined in the package."""
    parts = package.split(".")
    folder = ROOT.joinpath(*parts[1:])
    return parts[0] == "fgrn" and (folder.joinpath(f"{name}.py").is_file() or folder.joinpath(name).is_dir())


def of_the_package(modules: Set[str]) -> set[str]:
    """Those of our package, without its name; the package itself is ''."""
    return {module[len("fgrn") :].lstrip(".") for module in modules if module.split(".")[0] == "fgrn"}


@cache
def imports_of(file: str, with_type_checking: bool = True) -> frozenset[str]:
    return frozenset(imported(syntax(file), file, with_type_checking))


@pytest.mark.parametrize(
    ("source", "file", "expected"),
    [
        ("from . import counts", "flow/em.py", {"fgrn.flow.counts"}),
        ("from ..engines import Engine", "flow/em.py", {"fgrn.engines"}),
        ("from ..engines import reference", "flow/em.py", {"fgrn.engines.reference"}),
        ("from ..engines.reference import Reference", "flow/em.py", {"fgrn.engines.reference"}),
        ("from ..core.exceptions import FgrnError", "engines/reference.py", {"fgrn.core.exceptions"}),
        ("from .. import graph", "engines/reference.py", {"fgrn.graph"}),
        ("from . import BlockCounts, reference", "engines/cpu.py", {"fgrn.engines", "fgrn.engines.reference"}),
        ("def f():\n    import fgrn.graph", "flow/em.py", {"fgrn.graph"}),
        ("from fgrn import graph, Network", "flow/em.py", {"fgrn.graph", "fgrn"}),
        ("if TYPE_CHECKING:\n    from ..graph import A\nelse:\n    import numba.core", "flow/em.py", {"numba.core"}),
        ("if typing.TYPE_CHECKING:\n    from ..graph import SISO", "flow/em.py", set()),
        ("if not TYPE_CHECKING:\n    import os", "flow/em.py", {"os"}),
    ],
)
def test_imports_are_read_as_python_reads_them(source: str, file: str, expected: set[str]) -> None:
    assert imported(ast.parse(source), file, with_type_checking=False) == expected


def test_type_checkers_read_more() -> None:
    source = "if TYPE_CHECKING:\n    from ..graph.blocks import SISO"
    assert imported(ast.parse(source), "flow/em.py", with_type_checking=True) == {"fgrn.graph.blocks"}


def module_of(file: str) -> str:
    """The name of a module below the package: that of its folder for an __init__."""
    return ".".join(Path(file).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def test_every_file_is_in_a_folder_that_is_known() -> None:
    assert {module_of(file).split(".")[0] for file in SOURCES} == {*FOLDERS, *BESIDE_FOLDERS}


def test_every_folder_says_what_it_is() -> None:
    for folder in FOLDERS:
        assert len(ast.get_docstring(syntax(f"{folder}/__init__.py")) or "") > 20


# Who may know whom


def test_a_folder_imports_only_what_stands_above_it() -> None:
    backwards = set()
    for file in SOURCES:
        mine = module_of(file)
        if mine in BESIDE_FOLDERS:
            continue
        for other in of_the_package(imports_of(file)) - {"_version"}:
            place = FOLDERS.index(other.split(".")[0]) if other else len(FOLDERS)
            if place > FOLDERS.index(mine.split(".")[0]):
                backwards.add((mine, other))
    cli = {(mine, other) for mine, other in backwards if mine.split(".")[0] == "cli"}  # it is a user of the package
    assert backwards - cli == set(BACKWARDS)


def test_what_goes_backwards_is_not_imported_with_the_module() -> None:
    for mine, other in BACKWARDS:
        tree = syntax(f"{mine.replace('.', '/')}.py")
        at_once = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
        found = of_the_package(imported(at_once, f"{mine.replace('.', '/')}.py"))
        assert other not in found, (mine, other)


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("flow/")])
def test_the_flow_knows_the_plan_and_the_protocol_of_engines_and_nothing_else(name: str) -> None:
    known = of_the_package(imports_of(name))
    strangers = {one for one in known if one not in ("engines", "flow") and not one.startswith(FLOW_MAY_KNOW)}
    assert not strangers, f"{name} imports {sorted(strangers)}"


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("engines/")])
def test_engines_know_errors_and_other_engines_and_nothing_else(name: str) -> None:
    known = of_the_package(imports_of(name, with_type_checking=False))
    fine = ("core.exceptions", "core.tree_centre")
    strangers = {module for module in known if module not in fine and module.split(".")[0] != "engines"}
    assert not strangers, f"{name} imports {sorted(strangers)} at run time"


def test_numba_is_imported_by_the_kernels_alone() -> None:
    files = {name for name in SOURCES if any(module.split(".")[0] == "numba" for module in imports_of(name))}
    assert files == {
        f"engines/kernels/{name}.py"
        for name in ("basics", "blas", "cache", "joint_rows", "linking", "llvm", "subnormals", "teams", "vectors")
    }


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith("files/formats/")])
def test_formats_know_documents_and_nothing_of_networks(name: str) -> None:
    known = ("core.", "bayes.document", "files.container", "files.formats", "tables.table_file")
    strangers = {one for one in of_the_package(imports_of(name)) if not one.startswith(known)}
    assert not strangers, f"{name} imports {sorted(strangers)}"


def files_importing(library: str) -> set[str]:
    return {name for name in SOURCES if any(module.split(".")[0] == library for module in imports_of(name))}


@pytest.mark.parametrize("library", ["torch", "dask", "distributed", "lark"])
def test_a_heavy_library_is_imported_in_one_file_at_most(library: str) -> None:
    assert len(files_importing(library)) <= 1


def test_scikit_learn_is_imported_by_its_estimators_and_by_what_compares_with_it() -> None:
    elsewhere = {name for name in files_importing("sklearn") if not name.startswith("estimators/")}
    assert elsewhere <= {f"showcase/{name}.py" for name in ("datasets", "demo", "paper")}


def test_what_was_documented_before_is_the_same_module() -> None:
    from importlib import import_module

    from fgrn._moved import MOVED

    for old, new in MOVED.items():
        if new:
            assert import_module(old) is import_module(new)
            assert import_module(new).__spec__.name == new
    assert fgrn.em.History is import_module("fgrn.flow.em").History


# The package as it is imported


def test_import_is_light() -> None:
    code = """
import sys
before = set(sys.modules)
import fgrn
assert "numpy" not in sys.modules
assert fgrn.flow.em.History and fgrn.lvm  # folders are there as soon as they are named
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert "fgrn" in loaded
    assert loaded.isdisjoint(HEAVY), sorted(loaded.intersection(HEAVY))


def test_a_network_that_answers_loads_no_learning() -> None:
    code = """
import sys
import fgrn
S, Y = fgrn.Variable("S", 2), fgrn.Variable("Y", 2)
fgrn.Network([fgrn.Source(S), fgrn.SISO(S, Y)]).posterior({"Y": [0]}, "S")
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    learning = ("fgrn.flow.em", "fgrn.flow.esteps", "fgrn.learning.learn", "fgrn.learning.checkpoints")
    assert set(done.stdout.split()).isdisjoint(learning)


def test_import_is_quiet() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import fgrn"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def sorting_of_exported_names(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then the rest: as ruff sorts __all__."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_all_promised_names_are_there_and_sorted() -> None:
    assert len(set(fgrn.__all__)) == len(fgrn.__all__)
    for name in fgrn.__all__:
        assert hasattr(fgrn, name), name
    assert list(fgrn.__all__) == sorted(fgrn.__all__, key=sorting_of_exported_names)
    assert set(fgrn.__all__) <= {*dir(fgrn)}


def test_nothing_else_is_public() -> None:
    code = "import fgrn, types; print(*(n for n in dir(fgrn) if not isinstance(getattr(fgrn, n), types.ModuleType)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    tools = {"annotations", "Any", "TYPE_CHECKING", "import_module"}
    public = {name for name in done.stdout.split() if not name.startswith("_")} - tools
    modules = {name for name in fgrn.__all__ if inspect.ismodule(getattr(fgrn, name))}
    assert public == set(fgrn.__all__) - {"__version__"} - modules


def test_every_error_is_exported() -> None:
    errors = {
        name
        for name, thing in vars(fgrn.core.exceptions).items()
        if inspect.isclass(thing) and issubclass(thing, fgrn.FgrnError)
    }
    assert errors <= set(fgrn.__all__)


# Files


@every_file
def test_no_check_vanishes_under_optimisation(name: str) -> None:
    tree = syntax(name)
    lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert not lines, f"assert statements in {name}, lines {lines}"


def definitions(file: str) -> set[str]:
    """The names of the functions and classes at the top level of a file."""
    tree = syntax(file)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_a_name_means_one_thing() -> None:
    """No two modules define functions or classes of the same name, but for the listed ones.

    Each format of network files has `parse`, `serialise` and helpers `_read_...` and `_write_...` for its parts.
    """
    found: dict[str, list[str]] = {}
    for file in SOURCES:
        for name in definitions(file) if file != "__init__.py" else ():
            in_format = file.startswith("files/formats/")
            if not (in_format and name.startswith(("parse", "serialise", "_read_", "_write_"))):
                found.setdefault(name, []).append(file)
    twice = {name: files for name, files in found.items() if len(files) > 1}
    new = {name: files for name, files in twice.items() if name not in SAME_NAME}
    assert not new, "rename all but one of each, so that the name says what it does"


def only_raises(node: ast.AST) -> bool:
    """Whether a function does nothing but raise an error; a class that others are made of may leave methods to them."""
    if not isinstance(node, ast.FunctionDef):
        return False
    documented = ast.get_docstring(node) is not None
    *before, last = node.body[1 if documented else 0 :] or [node]
    return not before and isinstance(last, ast.Raise) and "NotImplementedError" not in ast.unparse(last)


def test_what_a_class_cannot_do_is_not_among_its_methods() -> None:
    found = {
        (file, f"{kind.name}.{node.name}")
        for file in SOURCES
        for kind in ast.walk(syntax(file))
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.FunctionDef) and only_raises(node)
    }
    assert found == set(ONLY_RAISES), "say it as data, and raise where it is decided how a thing is run"


def is_frozen(kind: ast.ClassDef) -> bool:
    """Whether a class is a frozen dataclass or a NamedTuple."""
    frozen = [word for one in kind.decorator_list if isinstance(one, ast.Call) for word in one.keywords]
    is_dataclass = any(word.arg == "frozen" and ast.unparse(word.value) == "True" for word in frozen)
    return is_dataclass or any(ast.unparse(base) == "NamedTuple" for base in kind.bases)


def names_in_type(annotation: ast.AST) -> Iterator[str]:
    """The names in a type, but for those of the arguments and results of functions."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in ("Callable", "ClassVar"):
        return
    if isinstance(annotation, ast.Name):
        yield annotation.id
    for part in ast.iter_child_nodes(annotation):
        yield from names_in_type(part)


def test_what_is_frozen_has_no_lists_and_dicts() -> None:
    aliases = {
        target.id
        for file in SOURCES
        for node in syntax(file).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Subscript)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and not MUTABLE.isdisjoint(names_in_type(node.value))
    }
    found = {
        f"{file} {kind.name}.{ast.unparse(node.target)}"
        for file in SOURCES
        for kind in ast.walk(syntax(file))
        if isinstance(kind, ast.ClassDef) and is_frozen(kind)
        for node in kind.body
        if isinstance(node, ast.AnnAssign) and not (MUTABLE | aliases).isdisjoint(names_in_type(node.annotation))
    }
    assert found == MUTABLE_FIELDS, "make it a tuple or a Mapping, built once"


@cache
def assigned(file: str) -> set[str]:
    """The constants and types that a file assigns at its top level."""
    found: set[str] = set()
    for node in syntax(file).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def test_a_constant_that_is_imported_means_one_thing() -> None:
    """A constant or type that is imported comes from one file; one that is not may have a short name of its own."""
    home: dict[str, set[str]] = {}
    for file in SOURCES:
        package = ["fgrn", *Path(file).parent.parts]
        for node in ast.walk(syntax(file)):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
                path = "/".join(module.split(".")[1:])
                for origin in (f"{path}.py", f"{path}/__init__.py"):
                    if origin in SOURCES:
                        for name in {alias.name for alias in node.names} & assigned(origin):
                            home.setdefault(name, set()).add(origin)
    twice = {name: files for name, files in home.items() if len(files) > 1 and not name.startswith("_")}
    new = {name: files for name, files in twice.items() if name not in SAME_CONSTANT}
    assert not new, "rename all but one of each, so that the name says what it is"
    assert len(home) > 100


def test_a_file_name_means_one_thing() -> None:
    """A reader finds a subject by the names of files: no two share one, but for the listed ones."""
    names = Counter(Path(file).stem for file in SOURCES if not file.endswith("__init__.py"))
    twice = {name for name, count in names.items() if count > 1}
    assert twice == set(SAME_FILE), "rename all but one of each, so that the name says what is in it"


@every_file
def test_no_file_is_too_long(name: str) -> None:
    count = len(SOURCES[name].read_text(encoding="utf-8").splitlines())
    assert count <= LONGEST_FILE, f"{name} has {count} lines: find its second job a room of its own"


# Plans and parameters are never written to


def arrays_in(thing: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Every array in a dataclass, in what it holds, and in tuples of such."""
    if isinstance(thing, np.ndarray):
        yield "", thing
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            for name, array in arrays_in(getattr(thing, field.name)):
                yield f"{field.name}.{name}".rstrip("."), array
    elif isinstance(thing, tuple):
        for number, item in enumerate(thing):
            for name, array in arrays_in(item):
                yield f"{number}.{name}".rstrip("."), array


def fingerprint(thing: Any) -> str:
    digest = hashlib.sha256()
    for name, array in arrays_in(thing):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def assert_read_only(thing: Any, least: int) -> None:
    arrays = dict(arrays_in(thing))
    assert len(arrays) >= least, sorted(arrays)
    for name, array in arrays.items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert array.base is None or not array.base.flags.writeable, name


def programs_of(programs: Programs, names: list[str]) -> list[Any]:
    some = programs.some(programs._plan.messages_of(names))
    return [programs.everything, programs.counting, programs.round, some]


@given(network=networks())
def test_plans_programs_and_parameters_are_read_only(network: SmallNetwork) -> None:
    net = Network(network.blocks)
    plan = make_plan(Wiring(tuple(network.blocks)))
    assert_read_only(plan, 15)
    for program in programs_of(Programs(plan), list(network.variables)[:1]):
        assert_read_only(program, 8)
    assert_read_only(net._parameters, 1)
    assert_read_only(net._spec, 0)


@given(network=loopy_networks())
def test_plans_of_loops_are_read_only(network: SmallNetwork) -> None:
    plan = make_plan(Wiring(tuple(network.blocks)))
    assert_read_only(plan, 15)
    assert_read_only(Programs(plan).round, 8)


def test_a_fingerprint_sees_every_change() -> None:
    plan = make_plan(Wiring(tuple(chain().blocks)))
    changed = dataclasses.replace(plan.layout, prior_sizes=plan.layout.prior_sizes)
    assert fingerprint(changed) == fingerprint(plan.layout)
    for name, array in arrays_in(plan):
        if array.size and "." not in name:
            other = array.copy()
            other.flat[0] = not other.flat[0] if other.dtype == bool else other.flat[0] + 1
            init = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan) if f.init}
            assert fingerprint(type(plan)(**{**init, name: other})) != fingerprint(plan), name


def chain() -> Network:
    names = ["S", "S1", "S2", "S3", "H", "Y1", "Y2", "Y3"]
    S, S1, S2, S3, H, Y1, Y2, Y3 = (Variable(name, 2) for name in names)
    return Network([Source(S), Diverter([S], [S1, S2, S3]), SISO(S1, Y1), SISO(S2, Y2), SISO(S3, H), SISO(H, Y3)])


@pytest.mark.parametrize("engine", ENGINES)
@given(case=networks_with_evidence(networks(zeros=False)))
def test_learning_and_propagating_leave_plan_and_parameters_as_they_were(
    case: tuple[SmallNetwork, Evidence], engine: str
) -> None:
    network, evidence = case
    net = Network(network.blocks)
    plan, parameters = net._plan(()), net._parameters
    program = Programs(plan).everything
    before = [fingerprint(thing) for thing in (plan, parameters, program, net._spec)]
    net.propagate(evidence.columns, engine=engine)
    net.propagate(evidence.columns, engine=engine, schedule="rounds")
    net.propagate(evidence.columns, engine=engine, keep=list(network.variables)[:1])
    net.complete(evidence.columns, engine=engine)
    assert net._parameters is parameters
    if any(block.learn for block in network.blocks if not isinstance(block, Diverter)):
        for cycles, holes in ((1, "expect"), (3, "ignore")):
            net.learn(evidence.columns, epochs=2, cycles=cycles, holes=holes, smoothing=0.1, engine=engine)
        assert net._parameters is not parameters
    assert [fingerprint(thing) for thing in (plan, parameters, program, net._spec)] == before
    assert net._plan(()) is plan


@pytest.mark.parametrize("step", ["random_start", "updated"])
def test_an_update_returns_new_parameters_and_leaves_the_old_ones(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = getattr(fgrn.flow.em, step)
    calls = []

    def watched(*given: Any, **settings: Any) -> Any:
        before = [fingerprint(thing) for thing in given]
        result = plain(*given, **settings)
        assert [fingerprint(thing) for thing in given] == before
        assert all(result is not thing for thing in given)
        assert_read_only(result, 1)
        calls.append(result)
        return result

    monkeypatch.setattr(fgrn.flow.em, step, watched)
    net = chain()
    net.learn({"Y1": [0, 1, 1], "Y2": [1, 1, 0], "Y3": [1, None, 0]}, epochs=3, cycles=2, starts=2)
    assert len(calls) >= 2
    assert any(net._parameters == result for result in calls) or step == "random_start"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_given_is_not_written_to(engine: str) -> None:
    data = {
        "Y1": np.array([0, 1, 1, 0]),
        "Y2": np.array([0.0, np.nan, 1.0, 1.0]),
        "Y3": np.array([[0.2, 0.4], [3.0, 1.0], [np.nan, np.nan], [0.0, 2.0]]),
    }
    weights = np.array([1.0, 2.0, 0.0, 0.5])
    before = {name: column.tobytes() for name, column in data.items()} | {"weights": weights.tobytes()}
    for array in (*data.values(), weights):
        array.setflags(write=False)
    net = chain()
    net.learn(data, epochs=2, cycles=2, weights=weights, engine=engine)
    net.propagate(data, engine=engine)
    net.complete(data, engine=engine)
    after = {name: column.tobytes() for name, column in data.items()} | {"weights": weights.tobytes()}
    assert after == before


def test_what_was_found_cannot_be_written_over() -> None:
    net = chain()
    history = net.learn({"Y1": [0, 1, 1]}, epochs=1)
    for schedule in ("sweeps", "rounds"):
        seen = net.propagate({"Y1": [0, 1]}, schedule=schedule)
        for array in (seen.forward("S"), seen.backward("S"), seen.marginal("S"), history.log_likelihood):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 7


def test_what_is_frozen_cannot_be_assigned_to() -> None:
    net = chain()
    plan = net._plan(())
    for thing in (plan, plan.layout, Programs(plan).everything, net._parameters, net._spec, *net.blocks):
        field = dataclasses.fields(thing)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, field, None)


def test_plans_and_parameters_are_read_only_in_another_process_too() -> None:
    """A pickled array forgets that it was read-only."""
    net = chain()
    net.learn({"Y1": [0, 1, 1]}, epochs=1)
    plan = pickle.loads(pickle.dumps(net._plan(())))
    assert fingerprint(plan) == fingerprint(net._plan(()))
    assert_read_only(pickle.loads(pickle.dumps(net._parameters)), 1)
    assert_read_only(pickle.loads(pickle.dumps(net))._parameters, 1)
    assert_read_only(plan, 15)
