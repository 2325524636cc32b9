"""Which encoder suits documents: by a sample before they are read, by all of them afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.messages.encoders import EncoderOffer, EncoderProposal
from engine.corpus.ingest.sampling import sample_texts
from engine.encoders.choosing.languages import foreign_shares, languages_of
from engine.encoders.choosing.proposal import (
    Machine,
    fits,
    measure_machine,
    propose_encoder,
)
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import BUNDLED_NAMES
from engine.lexical.languages import UNKNOWN, language_of
from engine.models.catalogue import read_catalogue
from engine.models.installed import list_installed, read_installed
from engine.project.folder import ProjectFolder
from engine.settings.schema import EncoderSettings


def propose_for_project(project: ProjectFolder) -> EncoderProposal:
    """Propose an encoder for a project by its documents, or by a sample if none was read yet."""
    settings = project.settings()
    lengths: Counter[str] = Counter()
    with suppress(EngineError), closing(project.store()) as store:
        lengths = store.characters_by_language(UNKNOWN)
    if lengths:
        return _propose(
            lengths,
            settings.encoder,
            settings.corpus.chunk_tokens,
            sampled=False,
        )
    return propose_for_files(
        project.sources(settings), settings.encoder, settings.corpus.chunk_tokens
    )


def propose_for_files(
    sources: Sequence[Path], encoder: EncoderSettings, chunk_tokens: int
) -> EncoderProposal:
    """Propose an encoder for files that no project has read, by a sample of them."""
    lengths = count_languages(sample_texts(sources))
    return _propose(
        lengths,
        encoder,
        chunk_tokens,
        sampled=True,
    )


def count_languages(texts: Iterable[str]) -> Counter[str]:
    """Return language code → number of characters in texts of this language.

    Texts whose language is not recognised are left out.
    """
    lengths: Counter[str] = Counter()
    for text in texts:
        code = language_of(text)
        if code != UNKNOWN:
            lengths[code] += len(text)
    return lengths


def _propose(
    lengths: Mapping[str, int], encoder: EncoderSettings, chunk_tokens: int, *, sampled: bool
) -> EncoderProposal:
    """Propose another encoder for texts in these languages if the present one does not suit.

    `lengths`: language code → number of characters. `encoder`: the present one. `sampled`: whether
    the texts are only a sample.
    """
    total = sum(lengths.values())
    shares = {code: length / total for code, length in lengths.items()}
    source = encoder_source(encoder)
    machine = measure_machine()
    proposal = EncoderProposal(
        languages=tuple(sorted(shares.items(), key=lambda item: -item[1])),
        sampled=sampled,
        encoder=source.name,
        unknown=sum(foreign_shares(languages_of(source), lengths).values()),
        offers=tuple(list_offers(shares, machine)),
    )
    is_bundled = not encoder.endpoint and encoder.model in BUNDLED_NAMES
    if not lengths or not (proposal.unknown or is_bundled):
        return proposal
    model = propose_encoder(
        shares,
        machine,
        min(chunk_tokens, encoder.max_tokens),
    )
    if model is None:
        return proposal
    here = read_installed(model.name) is not None
    size = 0 if here else model.disk
    return replace(
        proposal,
        model=model.name,
        here=here,
        size=size,
        purpose=model.purpose,
    )


def list_offers(shares: Mapping[str, float], machine: Machine) -> Iterator[EncoderOffer]:
    """List the encoders of the catalogue that are not installed.

    Those that know most of the text come first. `shares`: language code → share of the text.
    """
    here = {model.name for model in list_installed()}
    offers = []
    for model in read_catalogue():
        if model.kind != "encoder" or model.name in here:
            continue
        known = sum(share for language, share in shares.items() if model.knows(language))
        offers.append(
            EncoderOffer(
                name=model.name,
                size=model.disk,
                languages=model.format_languages,
                dimension=model.dimension,
                max_tokens=model.max_tokens,
                fits=fits(model, machine, is_here=False),
                known=known,
            )
        )
    yield from sorted(offers, key=lambda offer: -round(offer.known, 2))
