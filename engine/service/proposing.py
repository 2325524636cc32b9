"""Which encoder suits documents: by a sample before they are read, by all of them afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.messages.encoders import EncoderProposal
from engine.corpus.ingest.sampling import sample_texts
from engine.encoders.choosing.languages import foreign_shares, languages_of
from engine.encoders.choosing.proposal import measure_machine, propose_encoder
from engine.encoders.kinds.chosen import encoder_source
from engine.lexical.languages import UNKNOWN, language_of
from engine.models.installed import read_installed
from engine.project.folder import ProjectFolder
from engine.settings.schema import EncoderSettings


def propose_for_project(project: ProjectFolder) -> EncoderProposal:
    """Propose an encoder for a project: by its documents, or by a sample where none is read yet."""
    settings = project.settings()
    lengths: Counter[str] = Counter()
    with suppress(EngineError), closing(project.store()) as store:
        for _, code, length in store.languages_but(UNKNOWN):
            lengths[code] += length
    if lengths:
        return _propose(lengths, settings.encoder, settings.corpus.chunk_tokens, sampled=False)
    sources = [Path(path).expanduser() for path in settings.corpus.paths]
    return propose_for_files(sources, settings.encoder, settings.corpus.chunk_tokens)


def propose_for_files(
    sources: Sequence[Path], encoder: EncoderSettings, chunk_tokens: int
) -> EncoderProposal:
    """Propose an encoder for files that no project has read, by a sample of them."""
    lengths = count_languages(sample_texts(sources))
    return _propose(lengths, encoder, chunk_tokens, sampled=True)


def count_languages(texts: Iterable[str]) -> Counter[str]:
    """Count the characters of texts by language; those in none are left out."""
    lengths: Counter[str] = Counter()
    for text in texts:
        code = language_of(text)
        if code != UNKNOWN:
            lengths[code] += len(text)
    return lengths


def _propose(
    lengths: Mapping[str, int], encoder: EncoderSettings, chunk_tokens: int, *, sampled: bool
) -> EncoderProposal:
    total = sum(lengths.values())
    shares = {code: length / total for code, length in lengths.items()}
    languages = tuple(sorted(shares.items(), key=lambda item: -item[1]))
    source = encoder_source(encoder)
    unknown = sum(foreign_shares(languages_of(source), lengths).values())
    if not unknown:
        return EncoderProposal(languages, sampled, source.name, 0.0)
    model = propose_encoder(shares, measure_machine(), min(chunk_tokens, encoder.max_tokens))
    if model is None:
        return EncoderProposal(languages, sampled, source.name, unknown)
    here = read_installed(model.name) is not None
    return EncoderProposal(
        languages,
        sampled,
        source.name,
        unknown,
        model.name,
        here,
        0 if here else model.disk,
        model.purpose,
    )
