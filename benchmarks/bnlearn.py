"""What R's package bnlearn answers for a table: scores of given arcs, structures that it finds, and its CPU time."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

SCRIPT = r"""
suppressMessages(library(bnlearn))
asked <- commandArgs(TRUE)
frame <- read.csv(asked[1], colClasses = "factor", check.names = FALSE)
quoted <- function(text) paste0('"', text, '"')
listed <- function(parts) paste0("[", paste(parts, collapse = ","), "]")
as_pairs <- function(arcs) listed(if (nrow(arcs)) apply(arcs, 1, function(arc) listed(quoted(arc))) else character(0))
told <- function(...) {
  parts <- list(...)
  cat(paste0("{", paste(paste0(quoted(names(parts)), ":", unlist(parts)), collapse = ","), "}\n"))
}
number <- function(value) sprintf("%.17g", value)
seconds <- function(work, repeats) {
  min(sapply(seq_len(repeats), function(.) { gc(); begin <- proc.time(); work(); sum((proc.time() - begin)[c(1, 2)]) }))
}
repeats <- as.integer(asked[3])
if (asked[2] == "score") {
  given <- as.matrix(read.csv(asked[4], colClasses = "character", check.names = FALSE))
  dag <- empty.graph(names(frame))
  arcs(dag) <- given
  told(bic = number(score(dag, frame, type = "bic")), aic = number(score(dag, frame, type = "aic")),
       bdeu = number(score(dag, frame, type = "bde", iss = 7)), k2 = number(score(dag, frame, type = "k2")),
       loglik = number(score(dag, frame, type = "loglik")))
} else {
  search <- switch(asked[2], hc = function() hc(frame, score = "bic"), tabu = function() tabu(frame, score = "bic"),
                   pc = function() pc.stable(frame, test = "mi", alpha = 0.05))
  found <- search()
  graph <- if (asked[2] == "pc") found else cpdag(found)
  told(arcs = as_pairs(arcs(found)), directed = as_pairs(directed.arcs(graph)),
       skeleton = as_pairs(arcs(skeleton(found))), tests = number(ntests(found)),
       seconds = number(seconds(search, repeats)))
}
"""


@cache
def missing_part() -> str | None:
    """Why bnlearn cannot be asked; None if it can."""
    if shutil.which("Rscript") is None:
        return "R is not installed (no program Rscript)"
    done = subprocess.run(["Rscript", "-e", "library(bnlearn)"], capture_output=True, check=False)
    return "R has no package bnlearn" if done.returncode else None


def version() -> str:
    """The version of bnlearn."""
    text = 'cat(as.character(packageVersion("bnlearn")))'
    return subprocess.run(["Rscript", "-e", text], capture_output=True, text=True, check=True).stdout


def own_data(name: str, rows: int) -> Any:
    """The first rows of a table that comes with bnlearn, as a frame of words."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        text = f'library(bnlearn); data({name}); write.csv(head({name}, {rows}), "{path}", row.names = FALSE)'
        subprocess.run(["Rscript", "-e", text], capture_output=True, check=True)
        return pd.read_csv(path, dtype=str, keep_default_na=False)


def answer(frame: Any, question: str, arcs: Iterable[tuple[str, str]] = (), repeats: int = 1) -> dict[str, Any]:
    """What bnlearn says of a frame of words: "score" of arcs, or the structure found by "hc", "tabu" or "pc"."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        table, script, given = (Path(folder) / name for name in ("rows.csv", "ask.R", "arcs.csv"))
        frame.to_csv(table, index=False)
        script.write_text(SCRIPT)
        pd.DataFrame(list(arcs), columns=["from", "to"]).to_csv(given, index=False)
        done = subprocess.run(
            ["Rscript", str(script), str(table), question, str(repeats), str(given)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"bnlearn did not answer: {done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
    return {key: [tuple(pair) for pair in value] if isinstance(value, list) else value for key, value in found.items()}
