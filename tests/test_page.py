"""Pages of `fgrn.explore`: what is written, and what is refused. What they do is in the other test_page files."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from models import chest, circle, refined_classifier

import fgrn
from fgrn.cli import main
from fgrn.cli.explore import explore as explore_command
from fgrn.cli.wording import spoken
from fgrn.page import export, notebook, page
from fgrn.page.disk_rows import RowsOnDisk
from fgrn.page.server import Answers, server_of
from fgrn.page.widget import given_of


def parts(html: str) -> tuple[dict[str, Any], bytes]:
    """What a page carries: its text, and its arrays."""
    text = re.search(r'<script type="application/json" id="model">(.*?)</script>', html, re.S)
    data = re.search(r'<script type="text/plain" id="arrays">(.*?)</script>', html, re.S)
    assert text and data
    return json.loads(text[1]), base64.b64decode(data[1])


def test_a_page_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    made = fgrn.explore(chest(), path)
    html = path.read_text(encoding="utf-8")
    assert html == made.html
    assert not re.search(r"(src|href)=[\"']?(?!data:)", re.sub(r"<script>.*</script>", "", html, flags=re.S))
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1])  # type: ignore[index]
    assert policy.startswith("default-src 'none'")
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_same_model_makes_the_same_page() -> None:
    assert fgrn.explore(chest()).html == fgrn.explore(chest()).html


def test_arrays_come_as_they_are() -> None:
    model = chest()
    text, data = parts(fgrn.explore(model).html)
    plan = model._tree_network()._plan(())
    kinds = {"f8": np.float64, "i4": np.int32, "u1": np.uint8}

    def array(name: str) -> np.ndarray:
        kind, first, count = text["arrays"][name]
        return np.frombuffer(data, kinds[kind], count, first)

    np.testing.assert_array_equal(array("values"), model._parameters.values)
    np.testing.assert_array_equal(array("maps"), plan.maps)
    np.testing.assert_array_equal(array("reader"), plan.reader)
    assert [one["name"] for one in text["variables"]] == list(model.names)
    assert [plan.names[one["edge"]] for one in text["variables"]] == list(model.names)


def test_cards_are_where_pictures_have_them_and_apart() -> None:
    for model in (chest(), circle(), fgrn.lvm({f"Y{k}": 3 for k in range(60)}, hidden=4)):
        graph = parts(fgrn.explore(model).html)[0]["graph"]
        cards = [card for card in graph["cards"] if card["edge"] >= 0]
        width = export.CARD["width"]
        for at, one in enumerate(cards):
            assert width / 2 <= one["x"] <= graph["width"] - width / 2
            assert 0 <= one["y"] <= graph["height"] - one["height"]
            for other in cards[:at]:
                beside = abs(one["x"] - other["x"]) >= width
                below = max(one["y"], other["y"]) >= min(one["y"] + one["height"], other["y"] + other["height"])
                assert beside or below
        assert graph["width"] < 4 * graph["height"]


def test_arcs_join_the_variables_of_the_model() -> None:
    model = chest()
    text, _ = parts(fgrn.explore(model).html)
    names = {one["edge"]: one["name"] for one in text["variables"]}
    cards = [names[card["edge"]] for card in text["graph"]["cards"]]
    assert {tuple(cards[end] for end in arc["ends"]) for arc in text["graph"]["arcs"]} == set(model.arcs)


@pytest.mark.parametrize(
    ("net", "shown", "arcs"),
    [
        (fgrn.lvm({"a": 2, "b": 3}, hidden=2), {"S", "a", "b"}, {("S", "a"), ("S", "b")}),
        (fgrn.dica({"a": 2}, hidden=[2, 3]), {"S1", "S2", "a"}, {("S1", "a"), ("S2", "a")}),
        (
            fgrn.hmm({"Y": 2}, hidden=2, length=2),
            {"S[0]", "S[1]", "Y[0]", "Y[1]"},
            {("S[0]", "S[1]"), ("S[0]", "Y[0]"), ("S[1]", "Y[1]")},
        ),
    ],
)
def test_copies_of_a_variable_have_no_card_of_their_own(
    net: fgrn.Network, shown: set[str], arcs: set[tuple[str, str]]
) -> None:
    text, _ = parts(fgrn.explore(net).html)
    names = {one["edge"]: one["name"] for one in text["variables"]}
    cards = [names[card["edge"]] for card in text["graph"]["cards"]]
    assert (set(cards), len(cards)) == (shown, len(shown))
    assert {tuple(cards[end] for end in arc["ends"]) for arc in text["graph"]["arcs"]} == arcs


def test_the_page_of_an_estimator_knows_its_class_and_its_columns() -> None:
    table = {"age": [20 + 1.7 * k for k in range(24)], "cars": ["none", "one", None] * 8, "key": ["?"] * 24}
    classes = ["a", "b"] * 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [
            fgrn.NaiveBayesClassifier(n_bins=2).fit(table, classes),
            fgrn.LatentClassModel(n_hidden=2, n_epochs=2).fit(table),
            fgrn.LatentImputer(n_hidden=2, n_epochs=2).fit(table),
            fgrn.DiscreteICA(n_hidden=[2, 2], n_epochs=2).fit(table),
        ]
    texts = [parts(fgrn.explore(model).html)[0] for model in made]
    assert [text["target"] for text in texts] == ["class", "S", None, None]
    age, cars = texts[0]["columns"]
    assert (age["name"], cars["name"]) == ("age", "cars")
    assert age["edges"] == list(made[0].schema_["age"].edges)
    assert "edges" not in cars and "?" in cars["missing"]


def test_values_that_are_no_level_of_their_own_have_a_state_on_the_page() -> None:
    words = ["one"] * 20 + ["two"] * 10 + ["rare", "rarer"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fgrn.NaiveBayesClassifier(max_levels=3).fit({"word": words, "b": ["x", "y"] * 16}, ["a", "b"] * 16)
    word, b = parts(fgrn.explore(model).html)[0]["columns"]
    assert word["other"] == model.schema_["word"].codes(["rarest"])[0][0]
    assert "other" not in b


@pytest.mark.parametrize("networks", [1, 2])
def test_a_page_carries_the_networks_that_were_refined_for_the_class(networks: int) -> None:
    model, _ = refined_classifier(networks)
    plain = parts(fgrn.explore(model.network_).html)[0]
    text, data = parts(fgrn.explore(model).html)
    edge = next(one["edge"] for one in text["variables"] if one["name"] == "class")
    weight = {"usual": 3.5, "power": 0.5}
    assert text["refined"] == {"edge": edge, "networks": networks, "weight": weight}
    assert plain["refined"] is None and not any(name.startswith("refined") for name in plain["arrays"])
    kind, first, count = text["arrays"]["refined.values"]
    assert kind == "f8"
    found = np.frombuffer(data, np.float64, count, first).reshape(networks, -1)
    np.testing.assert_array_equal(found, [one._parameters.values for one in model._decision.pool.models])
    own = text["arrays"]["values"]
    np.testing.assert_array_equal(np.frombuffer(data, np.float64, own[2], own[1]), model.network_._parameters.values)
    served, _ = export.served_document(model, "", "")
    assert served["refined"] == text["refined"] and "refined.values" not in served["arrays"]


def test_no_name_can_end_an_element() -> None:
    name = '</script><script>alert("x")</script>'
    html = fgrn.explore(fgrn.BayesianNetwork({name: ["</style>", "b"]}), title="</title><b>&").html
    assert html.count("<script") == 3
    assert html.count("</script>") == 3
    assert "</title><b>" not in html
    assert parts(html)[0]["variables"][0]["name"] == name


def test_names_that_no_file_can_hold_are_carried() -> None:
    html = fgrn.explore(fgrn.BayesianNetwork({"half \ud800": 2}), title="half \ud800").html
    assert parts(html.encode().decode())[0]["variables"][0]["name"] == "half \ud800"


def test_the_script_is_small() -> None:
    import gzip

    assert len(gzip.compress(page._file("page.js").encode())) < 150_000


def test_the_page_of_alarm_is_small(shared_data: Path) -> None:
    assert len(fgrn.explore(fgrn.read(shared_data / "bif" / "alarm.bif")).html) < 1_000_000


# What is refused


def test_a_page_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "MOST_BYTES", 10_000)
    with pytest.raises(fgrn.FgrnError, match=r"The page would have 0 MB, and browsers open up to") as caught:
        fgrn.explore(chest(), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    told = "Use {} to see the same page, while Python infers."
    assert str(caught.value).endswith(told.format("the server of the command `fgrn explore`"))
    assert spoken(caught.value, explore_command).endswith(told.format("--serve"))


def test_what_a_browser_cannot_visit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_JOINT_STATES", 10)
    with pytest.raises(fgrn.FgrnError, match=r"visits \d+ joint states, too many for a browser \(10 at most\)"):
        fgrn.explore(chest())


def test_more_variables_than_can_be_shown_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "MOST_VARIABLES", 5)
    with pytest.raises(fgrn.FgrnError, match=r"A page shows up to 5 variables\. This model has 8\."):
        fgrn.explore(chest())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (fgrn.hmm({"Y": 2}, hidden=2), "a Chain has a variable for every row"),
        (fgrn.LatentClassModel(), "Got LatentClassModel, which is not fitted: call fit first"),
        ({"a": 2}, "Got dict"),
    ],
)
def test_what_is_no_model_of_one_row_is_refused(model: Any, why: str) -> None:
    with pytest.raises(fgrn.FgrnError, match=why):
        fgrn.explore(model)


def test_a_mixture_that_is_no_network_is_refused() -> None:
    draw = np.random.default_rng(0)
    table = {name: draw.integers(0, 2, 60) for name in "abc"}
    model = fgrn.HiddenTreeModel(n_hidden=2, n_trees=2, share_tables=True, n_epochs=1, random_state=0).fit(table)
    with pytest.raises(fgrn.FgrnError, match="mixture of trees that share tables"):
        fgrn.explore(model)
    assert fgrn.explore(model.network_).size > 100_000


@pytest.mark.parametrize(
    ("name", "why"), [("page.pdf", "its suffix is '.pdf'"), ("no/page.html", "there is no folder")]
)
def test_a_page_that_cannot_be_saved_says_why(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(fgrn.FgrnError, match=why):
        fgrn.explore(chest(), tmp_path / name)


# With --serve


@pytest.fixture
def served() -> Iterator[str]:
    """The address of a page whose model is here."""
    server, address = server_of(chest(), "chest")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield address
    server.shutdown()
    server.server_close()
    thread.join()


def edges(model: Any) -> dict[str, int]:
    """The edges by which a page knows the variables of a model."""
    return {one["name"]: one["edge"] for one in export.served_document(model, "", "")[0]["variables"]}


def asked(address: str, path: str, said: Any, host: str | None = None) -> Any:
    """The answer of a server to a question."""
    headers = {"Content-Type": "application/json"} | ({} if host is None else {"Host": host})
    question = Request(address + path, json.dumps(said).encode(), headers)
    with urlopen(question, timeout=30) as answer:
        return json.load(answer)


def test_a_server_answers_as_python_does(served: str) -> None:
    model = chest()
    names, edge = list(model.names), edges(model)
    given = [[edge["xray"], [1, 0]], [edge["dysp"], [0.2, 1]]]
    found = asked(served, "ask", {"given": given})
    seen = model.propagate({"xray": ["yes"], "dysp": [[0.2, 1]]})
    assert found["logLikelihood"] == pytest.approx(seen.log_likelihood[0], abs=1e-12)
    for name, belief in zip(names, found["beliefs"], strict=True):
        assert belief == pytest.approx(seen.marginal(name)[0], abs=1e-12)
    without = model.propagate({"xray": ["yes"]})
    assert found["others"][names.index("dysp")] == pytest.approx(without.marginal("dysp")[0], abs=1e-12)
    studied = asked(served, "study", {"given": given, "target": edge["lung"], "profiles": True})
    told = model.explain({"xray": "yes", "dysp": [[0.2, 1]]}, "lung")
    assert [value for _, value in studied["explanation"]["contributions"]] == pytest.approx(
        [*told.contributions.values()]
    )
    assert studied["likeliest"] == []
    assert max(studied["gains"]) == studied["gains"][names.index("lung")] == pytest.approx(studied["entropy"])
    for state, profile in enumerate(studied["profiles"]):
        expected = model.prototype("lung", model.variable("lung").labels[state])
        for name, shares in zip(names, profile, strict=True):
            assert shares == pytest.approx(expected.get(name, np.eye(2)[state]), abs=1e-12)


@pytest.mark.parametrize(
    ("networks", "structure"), [(0, "per_class"), (1, "per_class"), (2, "per_class"), (2, "tan"), (1, "tree")]
)
def test_a_server_predicts_the_class_as_the_classifier_does(networks: int, structure: str) -> None:
    model, table = refined_classifier(networks, structure)
    answers, net = Answers(model), model.network_
    target, expected = answers.names.index("class"), model.predict_proba(table)
    codes = {name: one.codes for name, one in model._coded(table).items()}
    for row in range(20):
        given = [(answers.names.index(name), np.eye(net.variable(name).cardinality)[one[row]].tolist())
                 for name, one in codes.items() if one[row] >= 0]  # fmt: skip
        found = answers.ask(given)
        seen = net.propagate(answers._columns([given]))
        assert found["logLikelihood"] == pytest.approx(seen.log_likelihood[0], abs=1e-12)
        assert found["others"][target] == pytest.approx(seen.marginal("class")[0], abs=1e-12)
        for number, name in enumerate(answers.names):
            belief = expected[row] if number == target else seen.marginal(name)[0]
            assert found["beliefs"][number] == pytest.approx(belief, abs=1e-12)
        told = model.explain({name: table[name][row] for name in table})
        explanation = answers.study(given, target)["explanation"]
        assert explanation["probability"] == pytest.approx(expected[row].max(), abs=1e-12)
        assert explanation["prior"] == pytest.approx(told.prior, abs=1e-9)
        assert [value for _, value in explanation["contributions"]] == pytest.approx(
            list(told.contributions.values()), abs=1e-9
        )
        weights = [0.2, 1.0, 0.5]  # as evidence the class is a variable like others
        known = answers.ask([*given, (target, weights)])["beliefs"][target]
        assert known == pytest.approx(
            net.propagate(answers._columns([[*given, (target, weights)]])).marginal("class")[0]
        )


def test_a_server_finds_the_likeliest_states_together(served: str) -> None:
    model = chest()
    known = {"xray": "yes", "smoke": "no", "dysp": "yes", "travel": "yes"}
    given = [[edges(model)[name], [float(value == "yes"), float(value == "no")]] for name, value in known.items()]
    studied = asked(served, "study", {"given": given, "target": -1, "assignments": 300})
    assert (studied["gains"], studied["explanation"]) == ([], None)
    expected, found = model.most_probable_k(300, known), studied["likeliest"]
    assert len(found) == len(expected) == 8, "all that are possible"
    assert [one["logProbability"] for one in found] == pytest.approx([one.log_probability for one in expected])
    assert len({tuple(one["states"]) for one in found}) == len(found)


def test_a_server_sends_messages_by_edge() -> None:
    for model in (chest(), chest().to_network("loopy")):
        net = model if isinstance(model, fgrn.Network) else model._tree_network()
        answers, edge = Answers(model), edges(model)
        found = answers.answer({"given": [[edge["xray"], [1, 0]]], "messages": True})
        seen = net.propagate({"xray": ["yes"]})
        for number, name in enumerate(seen.plan.names):
            assert found["messages"]["forward"][number] == pytest.approx(seen.forward(name)[0], abs=1e-9)
            assert found["messages"]["backward"][number] == pytest.approx(seen.backward(name)[0], abs=1e-9)
        if not net.is_tree:
            assert found["loops"]["count"] == seen.rounds == len(found["loops"]["rounds"]) - 1
            assert found["loops"]["converged"] is True


@pytest.mark.parametrize("kind", ["junction tree", "loops", "factors", "product space"])
def test_states_of_wires_are_joint_states_of_variables(kind: str) -> None:
    model: Any = {
        "junction tree": chest, "loops": lambda: chest().to_network("loopy"), "factors": circle,
        "product space": lambda: fgrn.dica({"a": 2, "b": 3}, hidden=[3, 2]),
    }[kind]()  # fmt: skip
    text, _ = export.document(model, "", "")
    sizes = {one["edge"]: one["states"] for one in text["variables"]}
    wires = [wire for wire in text["factor"]["wires"] if isinstance(wire.get("states"), int)]
    assert wires
    for wire in wires:
        counts = [sizes[edge] if isinstance(sizes[edge], int) else len(sizes[edge]) for edge in wire["parts"]]
        assert np.prod(counts) == wire["states"]
    blocks = text["factor"]["blocks"]
    assert all(0 <= line["block"] < len(blocks) for line in text["factor"]["lines"])


def test_a_factor_graph_is_sent_unless_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    text, arrays = export.served_document(chest(), "", "")
    assert text["factor"] and arrays
    monkeypatch.setattr(export, "MOST_SENT", 100)
    text, arrays = export.served_document(chest(), "", "")
    assert (text["factor"], text["arrays"], arrays) == (None, {}, b"")


def test_rows_on_disk_are_read_by_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "a,b,c\n" + "".join(f"{k},{'?' if k % 3 else 'x y'},{'' if k % 2 else k / 4}\n" for k in range(1000))
    )
    rows = RowsOnDisk(str(path))
    rows._stream.rows = 64
    assert rows.about() == {"name": "rows.csv", "columns": ["a", "b", "c"], "count": 1000}
    for number in (0, 1, 999, 63, 64, 500, 500):
        a, b, c = rows.row(number)
        assert (a, b) == (str(number), "?" if number % 3 else "x y")
        assert c == "" if number % 2 else float(c) == number / 4
    for wrong in (-1, 1000):
        with pytest.raises(IndexError, match="there are 1,000"):
            rows.row(wrong)


def test_a_server_names_what_cannot_go_together(served: str) -> None:
    edge = edges(chest())
    given = [[edge["smoke"], [1, 0]], [edge["tub"], [1, 0]], [edge["either"], [0, 1]]]
    found = asked(served, "ask", {"given": given})
    assert found["logLikelihood"] is None
    assert found["conflict"] == [edge["tub"], edge["either"]]


def test_a_server_answers_to_its_own_address_alone(served: str) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{20,}/", served)
    base, token = served.rstrip("/").rsplit("/", 1)
    with urlopen(served, timeout=30) as answer:
        html = answer.read().decode()
    assert "connect-src &#x27;self&#x27;" in html
    assert parts(html)[0]["served"] is True
    for wrong in (f"{base}/", f"{base}/{token[:-1]}/", f"{served}../", f"{served}other"):
        with pytest.raises(HTTPError, match="404"):
            urlopen(wrong, timeout=30)
    for path, said, host in (
        ("ask", {"given": []}, "localhost"),
        ("ask", {"given": []}, "evil.example"),
        ("no", {}, None),
    ):
        with pytest.raises(HTTPError, match="404"):
            asked(served, path, said, host)
    first = edges(chest())["travel"]
    for bad in ({}, {"given": [[999, [1, 0]]]}, {"given": [[first, [1, 0, 0]]]}, {"given": [[first, ["a", "b"]]]}, []):
        with pytest.raises(HTTPError, match="400"):
            asked(served, "ask", bad)


# The command, and notebooks


def test_the_command_writes_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    fgrn.write(chest(), "chest.bif")
    assert main(["explore", "chest.bif"]) == 0
    assert re.fullmatch(r"written: chest\.html \(\d+ kB\); open it in a browser\n", capsys.readouterr().err)
    text, _ = parts(Path("chest.html").read_text(encoding="utf-8"))
    assert (text["title"], text["source"], text["kind"]) == ("chest", "chest.bif", "bayesian")
    net = fgrn.lvm({"a": 2}, hidden=2)
    net.save("net.fgrn")
    assert main(["explore", "net.fgrn", "-o", "other.html", "--title", "A title", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": "other.html", "bytes": Path("other.html").stat().st_size}
    assert parts(Path("other.html").read_text(encoding="utf-8"))[0]["title"] == "A title"
    assert main(["explore", "missing.bif"]) == 1
    assert main(["explore", "chest.bif", "-o", "chest.bif"]) == 2
    assert main(["explore", "chest.bif", "--serve", "-o", "other.html"]) == 2
    assert main(["explore", "chest.bif", "rows.csv"]) == 2


def test_without_o_a_page_of_another_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    fgrn.write(chest(), "chest.bif")
    fgrn.lvm({"a": 2}, hidden=2).save("chest.fgrn")
    page = Path("chest.html")
    assert main(["explore", "chest.fgrn"]) == 0
    made = page.read_bytes()
    assert main(["explore", "chest.bif"]) == 2
    told = capsys.readouterr().err.split("\n")
    assert "'chest.html' was made from 'chest.fgrn'" in told[-2]
    assert "-o" in told[-2]
    assert page.read_bytes() == made
    assert main(["explore", str(tmp_path / "chest.fgrn"), "--title", "Again"]) == 0  # the same file, by another name
    assert page.read_bytes() != made
    assert main(["explore", "chest.bif", "-o", "chest.html"]) == 0
    for other in ("<p>Of a treasure</p>", '<script type="application/json" id="model">[1]</script>'):
        page.write_text(other)
        assert main(["explore", "chest.bif"]) == 2
        assert "'chest.html' was not made from 'chest.bif'" in capsys.readouterr().err
        assert page.read_text() == other
    fgrn.explore(chest(), page)  # from a model in memory
    assert main(["explore", "chest.bif"]) == 2


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    fgrn.write(chest(), tmp_path / "chest.bif")
    arguments = ["explore", str(tmp_path / "chest.bif"), "--serve", "--json"]
    code = f"""
import signal, sys
from fgrn.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
sys.exit(main({arguments!r}))
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        address = json.loads("".join(lines))["address"]
        found = asked(address, "ask", {"given": []})
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert found["logLikelihood"] == pytest.approx(0, abs=1e-12)


def test_evidence_of_a_widget_is_checked() -> None:
    variables = chest().variables
    known = {"travel": "no", "smoke": None, "lung": [0.5, 1], "tub": 1}
    assert given_of(variables, known) == [[0, [0, 1]], [3, [0.5, 1]], [1, [0, 1]]]
    for bad in ({"nobody": "yes"}, {"travel": "maybe"}, {"travel": [1, 2, 3]}, {"travel": [1, -1]}):
        with pytest.raises(fgrn.FgrnError):
            given_of(variables, bad)


def test_a_widget_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(fgrn.FgrnError, match=r"A widget needs anywidget: pip install 'fgrn\[notebook\]'"):
        fgrn.explore(chest()).widget()


def test_models_are_shown_as_a_picture_with_a_button_that_opens_the_page() -> None:
    table = {"age": [20 + 1.7 * k for k in range(24)], "cars": ["none", "one"] * 12}
    estimator = fgrn.LatentClassModel(n_hidden=2, n_epochs=2, tol=0)
    assert "<svg" not in estimator._repr_mimebundle_()["text/html"].split("</style>")[-1]
    estimator.fit(table)
    for model in (chest(), circle(), fgrn.lvm({"a": 2}, hidden=2), estimator):
        shown = model._repr_html_()
        assert shown.startswith("<div><svg")
        inside = re.search('>Explore</summary><iframe srcdoc="([^"]*)" .*? name="fgrn-when-seen"', shown)
        assert inside and unescape(inside[1]) == fgrn.explore(model).html
    assert "sk-container" in shown, "the settings are there, too"
    assert "Explore" in estimator._repr_mimebundle_()["text/html"]


def test_a_model_without_a_page_or_with_a_large_one_is_shown_without_a_button(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "<details>" not in fgrn.hmm({"Y": 2}, hidden=2)._repr_html_()
    with monkeypatch.context() as patch:
        patch.setattr(notebook, "MOST_BYTES", 10_000)
        assert "<details>" not in chest()._repr_html_()
    sides = range(14)  # pairs of all of them with each other: exact inference would need their joint states
    factors = [((f"a{i}", f"b{j}"), np.ones((9, 9))) for i in sides for j in sides]
    large = fgrn.MarkovNetwork(dict.fromkeys([f"{side}{k}" for side in "ab" for k in sides], 9), factors)
    with pytest.raises(fgrn.FgrnError):
        large.propagate()
    with monkeypatch.context() as patch:
        patch.setattr(notebook, "explore", None)  # it is not even tried
        assert "<details>" not in fgrn.lvm({"a": 800, "b": 2}, hidden=700)._repr_html_()
        assert large._repr_html_().startswith("<div><svg")
    many = fgrn.BayesianNetwork({f"v{k}": 2 for k in range(1200)})
    assert many._repr_html_() is None, "notebooks show its text"


def test_notebooks_show_a_page_in_a_frame() -> None:
    made = fgrn.explore(chest())
    frame = made._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert unescape(re.search('srcdoc="([^"]*)"', frame)[1]) == made.html  # type: ignore[index]
    assert re.fullmatch(r"Page of \d+ kB; page.save\('page.html'\) writes it", repr(made))
