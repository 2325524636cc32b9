"""The page of `engine doctor --proof`: its table and its headline count the same sockets."""

from __future__ import annotations

import re

import pytest

from engine.doctor.proof import Proof, ProofStep
from engine.doctor.watched import SocketAttempt
from engine.evaluation.reporting.page import build_environment


@pytest.mark.parametrize(
    ("families", "network", "local"), [(["AF_UNIX"] * 2, 0, 2), (["AF_UNIX", "AF_INET"], 1, 1)]
)
def test_unix_sockets_are_counted_apart(families: list[str], network: int, local: int) -> None:
    sockets = tuple(SocketAttempt(family, "engine search") for family in families)
    step = ProofStep("searches", "engine search", 1.5, sockets)
    proof = Proof("now", "1", "Linux", "3.11", (), "model", {}, "code", (), (step,), ())
    page = build_environment().get_template("proof.html.j2").render(proof=proof)
    assert re.findall(r'<td class="n">(\d+)</td><td class="n">(\d+)</td></tr>', page) == [
        (str(network), str(local))
    ]
    assert (len(proof.attempts), proof.local) == (network, local)
