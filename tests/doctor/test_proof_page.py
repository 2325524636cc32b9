"""The page of `engine doctor --proof`: its name, and the sockets that it counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fixtures.errors import fails

from engine.core.errors import InputError, UsageError
from engine.doctor.proof import Proof, ProofStep, prove
from engine.doctor.watched import SocketAttempt
from engine.evaluation.reporting.page import build_environment


@pytest.mark.parametrize(
    ("families", "network", "local"), [(["AF_UNIX"] * 2, 0, 2), (["AF_UNIX", "AF_INET"], 1, 1)]
)
def test_unix_sockets_are_counted_apart(
    families: list[str],
    network: int,
    local: int,
) -> None:
    sockets = tuple(SocketAttempt(family, "engine search") for family in families)
    step = ProofStep(
        "searches",
        "engine search",
        1.5,
        sockets,
    )
    proof = Proof(
        "now",
        "1",
        "Linux",
        "3.11",
        (),
        "model",
        {},
        "code",
        (),
        (step,),
        (),
    )
    page = build_environment().get_template("proof.html.j2").render(proof=proof)
    assert re.findall(r'<td class="n">(\d+)</td><td class="n">(\d+)</td></tr>', page) == [
        (str(network), str(local))
    ]
    assert (len(proof.attempts), proof.local) == (network, local)


def test_the_name_of_the_page_is_checked_before_the_sample_is_run(tmp_path: Path) -> None:
    def report(step: str) -> None:
        raise AssertionError(step)

    with fails(UsageError, "wrong-use"):
        prove(
            tmp_path / "proof.json",
            None,
            report,
        )
    with fails(InputError, "path-missing"):
        prove(
            tmp_path / "missing" / "proof.html",
            None,
            report,
        )
