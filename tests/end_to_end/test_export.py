"""`engine export`: what is taken away works without this program, holds what it says, and is
complete or absent.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.optional import needs_pyarrow
from fixtures.pipeline import copy_project, engine, stage_here
from fixtures.project_files import mode
from fixtures.sentence_encoders import load_exported
from fixtures.training import stir

from engine.core.errors import InputError, NotBuiltError, ProjectBusyError, UsageError
from engine.core.messages.project import Exported
from engine.datasets.beir import READER, read_beir_judgments
from engine.encoders.hardware import Hardware
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import resolve_model
from engine.encoders.transformer import TransformerEncoder
from engine.evaluation.judgments import judge_queries
from engine.evaluation.reporting.report import read_report
from engine.evaluation.reporting.verdict import tables_of
from engine.export.folder import RECORD
from engine.export.take import export_project
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, EvaluationInfo, InUseInfo, VectorsInfo
from engine.settings.schema import EncoderSettings

CPU = Hardware(
    "cpu",
    "float32",
    1,
    (),
)
TEXTS = [
    "freezer door left open",
    "Who signs off a PHX-121 retrofit?",
    "contract law " * 200,
    "é",
    ".",
]


def serve(
    project: Path,
    strength: float,
    side: str,
) -> ProjectFolder:
    """Let search serve the trained adapter at a strength, on a side, and embed again."""
    folder = ProjectFolder.open(project)
    store = folder.store()
    evaluation = store.artifact(EvaluationInfo)
    trained = store.artifact(AdapterInfo)
    assert evaluation is not None
    assert trained is not None
    adapter = trained.info.adapter if strength else None
    weights = project / (trained.info.adapter or "")
    store.put_artifact(
        replace(trained, info=replace(trained.info, adapter_scope=side, digest=stir(weights)))
    )
    served = InUseInfo(
        "adapted",
        strength,
        adapter,
        side,
    )
    store.put_artifact(
        replace(evaluation, info=replace(evaluation.info, semantic=served, hybrid=served))
    )
    store.close()
    stage_here(project, "embed")
    return folder


@pytest.fixture(scope="module")
def projects(
    finished: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[float, str], ProjectFolder]:
    """Projects that serve (strength, side).

    Tests do not change them, but for the list of exports.
    """
    served: dict[tuple[float, str], ProjectFolder] = {}

    def give(strength: float, side: str) -> ProjectFolder:
        if (strength, side) not in served:
            copy = copy_project(finished, tmp_path_factory.mktemp("served") / "project")
            served[strength, side] = serve(
                Path(copy),
                strength,
                side,
            )
        return served[strength, side]

    return give


@pytest.fixture(scope="module")
def everything(
    projects: Callable[..., ProjectFolder], tmp_path_factory: pytest.TempPathFactory
) -> tuple[ProjectFolder, Exported]:
    """A project that serves its adapter for queries alone, and all that can be taken of it.

    Tests only read them.
    """
    project = projects(1.0, "queries")
    return project, export_project(
        project, tmp_path_factory.mktemp("everything") / "taken", ["all"]
    )


def own_encoder(project: ProjectFolder, *, adapted: bool) -> TransformerEncoder:
    store = project.store()
    vectors = store.artifact(VectorsInfo)
    store.close()
    assert vectors is not None
    info = vectors.info
    if adapted and info.adapter:
        adapter = project.path / info.adapter
    else:
        adapter = None
    return TransformerEncoder.load(
        resolve_model(info.model),
        adapter=adapter,
        adapter_scale=info.interpolation_weight,
        hardware=CPU,
        max_tokens=info.max_tokens,
    )


def assert_same(actual: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(
        actual,
        other,
        atol=1e-5,
        rtol=0,
    )


def runs_of_words(text: str) -> set[tuple[str, ...]]:
    """Every four words that stand in a row."""
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], words[3:], strict=False))


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_the_merged_model_gives_the_products_own_vectors(
    projects: Callable[..., ProjectFolder], tmp_path: Path, strength: float
) -> None:
    project = projects(strength, "both")
    exported = export_project(project, tmp_path / "taken")
    assert exported.kinds == ("adapter", "model")
    model = load_exported(exported.folder / "model")
    encoder = own_encoder(project, adapted=True)
    assert_same(model.encode_query(TEXTS), encoder.encode_queries(TEXTS))
    assert_same(model.encode_document(TEXTS), encoder.encode_chunks(TEXTS))
    base = own_encoder(project, adapted=False).encode_queries(TEXTS)
    assert np.abs(base - encoder.encode_queries(TEXTS)).max() > 1e-3  # the adapter does something
    again = TransformerEncoder.load(resolve_model(str(exported.folder / "model")), hardware=CPU)
    assert_same(again.encode_chunks(TEXTS), encoder.encode_chunks(TEXTS))


@pytest.mark.parametrize("strength", [pytest.param(1.0, marks=pytest.mark.slow), 0.5])
def test_the_adapter_gives_the_vectors_in_use_with_peft(
    projects: Callable[..., ProjectFolder], tmp_path: Path, strength: float
) -> None:
    project = projects(strength, "both")
    exported = export_project(
        project,
        tmp_path / "taken",
        ["adapter"],
    )
    store = project.store()
    vectors = store.artifact(VectorsInfo)
    store.close()
    assert vectors is not None
    assert_same(
        with_peft(vectors.info.model, exported.folder / "adapter"),
        own_encoder(project, adapted=True).encode_queries(TEXTS),
    )
    assert f"weight w = {strength}" in (exported.folder / "adapter" / "README.md").read_text(
        "utf-8"
    )


def test_an_adapter_for_queries_exports_both_encoders_with_model_cards(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    project = projects(1.0, "queries")
    exported = export_project(project, tmp_path / "taken")
    assert not (exported.folder / "model").exists()
    adapted = own_encoder(project, adapted=True)
    base = own_encoder(project, adapted=False)
    assert_same(
        load_exported(exported.folder / "query-encoder").encode_query(TEXTS),
        adapted.encode_queries(TEXTS),
    )
    assert_same(
        load_exported(exported.folder / "chunk-encoder").encode_document(TEXTS),
        base.encode_chunks(TEXTS),
    )
    cards = [
        (exported.folder / part / "README.md").read_text("utf-8")
        for part in ("query-encoder", "chunk-encoder")
    ]
    assert cards[0] != cards[1]
    whole = (exported.folder / "README.md").read_text("utf-8")
    assert all(f"`{part}/`" in whole for part in ("query-encoder", "chunk-encoder"))
    assert "adapter/chunks" not in whole
    manifest = json.loads((exported.folder / "manifest.json").read_text("utf-8"))
    assert manifest["encoder"]["adapter_scope"] == manifest["adapter"]["adapter_scope"] == "queries"


def with_peft(model: str, adapter: Path) -> np.ndarray:
    from peft import PeftModel

    plain = load_exported(Path(model))
    plain[0].model = PeftModel.from_pretrained(plain[0].auto_model, str(adapter)).merge_and_unload()
    vectors: np.ndarray = plain.encode(TEXTS)
    return vectors


def test_where_base_is_in_use_the_model_is_the_base(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    project = projects(0.0, "queries")
    exported = export_project(project, tmp_path / "taken")
    assert exported.kinds == ("adapter", "model")
    encoder = own_encoder(project, adapted=False)
    assert_same(
        load_exported(exported.folder / "model").encode_query(TEXTS), encoder.encode_queries(TEXTS)
    )
    manifest = json.loads((exported.folder / "manifest.json").read_text("utf-8"))
    assert (manifest["adapter"]["weight_in_use"], manifest["encoder"]["interpolation_weight"]) == (
        0,
        0,
    )
    assert (
        [note.code for note in exported.notes]
        == [note["code"] for note in manifest["notes"]]
        == ["adapter-unused"]
    )
    assert [note.code for note in export_project(project, tmp_path / "alone", ["model"]).notes] == [
        "model-base"
    ]


def test_exported_vectors_belong_to_the_exported_chunks(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    project = projects(1.0, "both")
    exported = export_project(
        project,
        tmp_path / "taken",
        ["vectors", "chunks"],
    )
    vectors = np.load(exported.folder / "vectors" / "vectors.npy", allow_pickle=False)
    ids = [
        json.loads(line)
        for line in (exported.folder / "vectors" / "ids.jsonl").read_text("utf-8").splitlines()
    ]
    chunks = [
        json.loads(line)
        for line in (exported.folder / "chunks.jsonl").read_text("utf-8").split("\n")
        if line
    ]
    assert vectors.dtype == np.float32
    assert len(vectors) == len(ids) == len(chunks) > 50
    text = {chunk["chunk_id"]: chunk["text"] for chunk in chunks}
    fresh = own_encoder(project, adapted=True).encode_chunks([text[row["chunk_id"]] for row in ids])
    np.testing.assert_allclose(vectors, fresh, atol=2e-3)  # the index holds 16 bits of each number
    np.testing.assert_allclose(
        np.linalg.norm(vectors, axis=1),
        1,
        atol=1e-6,
    )
    store = project.store()
    documents = {document.path: document.text for document in store.documents(with_text=True)}
    store.close()
    assert all(
        documents[row["path"]][row["start"] : row["end"]] == text[row["chunk_id"]] for row in ids
    )


@needs_pyarrow
def test_parquet_holds_the_same_rows(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    from pyarrow import parquet

    exported = export_project(
        projects(1.0, "both"),
        tmp_path / "taken",
        ["vectors", "parquet"],
    )
    table = parquet.read_table(exported.folder / "parquet" / "chunks.parquet").to_pylist()
    ids = [
        json.loads(line)
        for line in (exported.folder / "vectors" / "ids.jsonl").read_text("utf-8").splitlines()
    ]
    assert [{name: row[name] for name in ids[0]} for row in table] == ids
    assert all(row["text"] and len(row["terms"]) == len(row["impacts"]) > 0 for row in table)
    stacked = np.array([row["vector"] for row in table], dtype=np.float32)
    assert np.array_equal(stacked, np.load(exported.folder / "vectors" / "vectors.npy"))


def test_the_graph_is_made_where_the_index_was_opened_first(project: Path, tmp_path: Path) -> None:
    completed = engine(
        "export",
        str(project),
        str(tmp_path / "taken"),
        "--only",
        "onnx,vectors",
    )
    assert completed.returncode == 0
    assert list((tmp_path / "taken").glob("*-onnx/model.onnx"))
    names = {path.name for path in (tmp_path / "taken").iterdir()}
    assert {name for name in names if not name.endswith("-onnx")} == {
        "README.md",
        "manifest.json",
        "vectors",
    }


def test_the_graph_gives_the_same_vectors_for_texts_of_any_length(
    everything: tuple[ProjectFolder, Exported],
) -> None:
    import onnxruntime
    from tokenizers import Tokenizer

    project, exported = everything
    assert {path.name for path in exported.folder.glob("*-onnx")} == {
        "chunk-encoder-onnx",
        "query-encoder-onnx",
    }
    for name, adapted in (("query-encoder-onnx", True), ("chunk-encoder-onnx", False)):
        session = onnxruntime.InferenceSession(str(exported.folder / name / "model.onnx"))
        tokenizer = Tokenizer.from_file(str(exported.folder / name / "tokenizer.json"))
        tokenizer.enable_padding()
        tokenizer.enable_truncation(128)
        rows = tokenizer.encode_batch(TEXTS)
        inputs = {
            "input_ids": [row.ids for row in rows],
            "attention_mask": [row.attention_mask for row in rows],
        }
        vectors = session.run(
            None, {key: np.array(value, dtype=np.int64) for key, value in inputs.items()}
        )[0]
        np.testing.assert_allclose(
            vectors, own_encoder(project, adapted=adapted).encode_queries(TEXTS), atol=1e-5
        )
        assert "ONNX" in (exported.folder / name / "README.md").read_text("utf-8")


def test_queries_and_judgments_can_be_read_as_beir(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    project = projects(1.0, "queries")
    exported = export_project(
        project,
        tmp_path / "taken",
        ["beir"],
    )
    folder = exported.folder / "beir" / "chunks"
    corpus = {entry.external_id: entry.text for entry in READER.read(folder / "corpus.jsonl")}
    store = project.store()
    queries = store.queries()
    judged = store.judged()
    chunks = {str(chunk.id): chunk for chunk in store.chunks()}
    by_chunk = judge_queries(
        judged,
        list(chunks.values()),
        store.documents(with_text=True),
    )
    store.close()
    assert corpus.keys() == chunks.keys()
    for split in ("train", "validation", "heldout"):
        read = read_beir_judgments(folder, split)
        expected = [(query.text, str(query.chunk_id)) for query in queries if query.split == split]
        assert [(query.text, query.grades[0][0]) for query in read] == expected
    evidence = {query.text: query.evidence for query in judged}
    test = read_beir_judgments(folder, "test")
    assert len(test) > 5

    def squeezed(text: str) -> str:
        return "".join(text.split())

    held = [
        any(
            squeezed(string) in squeezed(corpus[key])
            for string in evidence[query.text]
            for key, _ in query.grades
        )
        for query in test
    ]
    assert sum(held) > 0.5 * len(held)  # the others are cut by a chunk's border
    assert {query.key: dict(query.grades) for query in test} == {
        query.key: {str(chunk): grade for chunk, grade in query.grades.items()}
        for query in by_chunk
        if query.usable
    }


def test_judgments_of_whole_documents_have_a_corpus_of_documents(
    project: Path, tmp_path: Path
) -> None:
    folder = ProjectFolder.open(project)
    from engine.core.records import JudgedQuery

    store = folder.store()
    path = store.documents()[3].path
    store.put_judged([JudgedQuery("tab\there", "about it all", grades=((path, 2),))])
    store.close()
    exported = export_project(
        folder,
        tmp_path / "taken",
        ["beir"],
    )
    (query,) = read_beir_judgments(exported.folder / "beir" / "documents", "test")
    assert (query.key, query.text, query.grades) == ("tab here", "about it all", ((path, 2),))
    assert path in {
        entry.external_id
        for entry in READER.read(exported.folder / "beir" / "documents" / "corpus.jsonl")
    }


def test_the_card_states_the_facts_and_no_text(everything: tuple[ProjectFolder, Exported]) -> None:
    project, exported = everything
    store = project.store()
    counts = store.counts()
    evaluation = store.artifact(EvaluationInfo)
    queries = [query.text for query in store.queries()] + [query.text for query in store.judged()]
    store.close()
    assert evaluation is not None
    texts = {path: path.read_text("utf-8") for path in exported.folder.rglob("README.md")}
    elsewhere = {"parquet", "qdrant", "lancedb", "opensearch"}
    pages = [text for path, text in texts.items() if path.parent.name not in elsewhere]
    manifest = (exported.folder / "manifest.json").read_text("utf-8")
    data = json.loads(manifest)
    assert len(pages) >= 4
    for page in pages:
        assert f"- chunks: {counts['chunks']}" in page
        assert f"- documents: {counts['documents']}" in page
        assert "learning_rate = `0.01`" in page
        for table in tables_of(read_report(project.folder_of(evaluation))).values():
            cell = table.systems["base"]["ndcg@10"]
            assert f"{cell.value:.1f} [{cell.low:.1f}, {cell.high:.1f}]" in page
        assert evaluation.info.hybrid.reason in page
        assert data["encoder"]["base_weights_sha256"] in page
        assert data["adapter"]["digest"] in page
    files = [
        path.read_text("utf-8")
        for path in (project.path / "documents").rglob("*")
        if path.is_file()
    ]
    runs = runs_of_words(" ".join(files))
    assert len(runs) > 1000
    assert len(pages) < len(texts)
    for text in (*texts.values(), manifest):
        assert not runs & runs_of_words(text)
        assert not [query for query in queries if len(query.split()) > 2 and query in text]
        assert str(project.path) not in text
        assert "/" + "documents" not in text


def test_the_card_shows_no_path_that_a_setting_holds(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    (tmp_path / "Clients" / "ACME").mkdir(parents=True)
    passwords = tmp_path / "Clients" / "ACME" / "passwords.txt"
    passwords.write_text("")
    passwords.chmod(0o600)
    changes = {
        "corpus.passwords_file": str(passwords),
        "queries.endpoint_model": "/mnt/ACME/model `x`\n# head",
    }
    folder.change_settings({**changes, "queries.endpoint": "http://127.0.0.1:9/ACME"})
    exported = export_project(
        folder,
        tmp_path / "taken",
        ["adapter"],
    )
    for path in (
        exported.folder / "README.md",
        exported.folder / "adapter" / "README.md",
        exported.folder / "manifest.json",
    ):
        assert "ACME" not in path.read_text("utf-8"), path
    page = (exported.folder / "README.md").read_text("utf-8")
    assert "endpoint_model = `model x# head`" in page
    assert "passwords_file" not in page


def test_the_manifest_names_every_file_with_its_hash_and_all_are_private(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    exported = export_project(
        projects(1.0, "both"), tmp_path / "taken", ["adapter", "model", "chunks"]
    )
    listed = json.loads((exported.folder / "manifest.json").read_text("utf-8"))["files"]
    files = {
        path.relative_to(exported.folder).as_posix(): path
        for path in exported.folder.rglob("*")
        if path.is_file()
    }
    assert listed.keys() == files.keys() - {"manifest.json"}
    assert exported.files == len(files)
    assert exported.bytes == sum(path.stat().st_size for path in files.values())
    for name, entry in listed.items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == entry["sha256"]
    assert {mode(path) for path in files.values()} == {0o600}
    folders = [exported.folder, *(path for path in exported.folder.rglob("*") if path.is_dir())]
    assert {mode(path) for path in folders} == {0o700}


def test_no_path_of_this_machine_is_in_a_model(
    projects: Callable[..., ProjectFolder], tmp_path: Path
) -> None:
    project = projects(1.0, "queries")
    exported = export_project(project, tmp_path / "taken")
    for path in (*exported.folder.rglob("*.json"), *exported.folder.rglob("*.safetensors")):
        content = path.read_bytes()
        assert str(tmp_path).encode() not in content
        assert str(project.path).encode() not in content
        assert str(project.settings().encoder.model).encode() not in content


@pytest.mark.parametrize("place", ["inside", "documents", "file", "full", "nowhere"])
def test_where_an_export_may_not_go(
    project: Path,
    tmp_path: Path,
    place: str,
) -> None:
    folder = ProjectFolder.open(project)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "own").write_text("mine")
    targets = {
        "inside": project / "reports" / "taken",
        "documents": project / "documents" / "taken",
        "file": tmp_path / "file",
        "full": tmp_path / "full",
        "nowhere": tmp_path / "no" / "taken",
    }
    with pytest.raises((UsageError, InputError)):
        export_project(
            folder,
            targets[place],
            ["chunks"],
        )
    assert (tmp_path / "full" / "own").read_text() == "mine"
    assert not (project / RECORD).exists()


def test_llama_cpp_gives_the_same_vectors(everything: tuple[ProjectFolder, Exported]) -> None:
    project, exported = everything
    assert {path.name for path in exported.folder.glob("*-gguf")} == {
        "chunk-encoder-gguf",
        "query-encoder-gguf",
    }
    for name, adapted in (("query-encoder-gguf", True), ("chunk-encoder-gguf", False)):
        file = exported.folder / name / "model-f16.gguf"
        vectors = (
            encoder_source(EncoderSettings(model=str(file), device="cpu"))
            .load(128)
            .encode_queries(TEXTS)
        )
        expected = own_encoder(project, adapted=adapted).encode_queries(TEXTS)
        assert (vectors * expected).sum(axis=1).min() >= 0.9999
        assert "GGUF" in (exported.folder / name / "README.md").read_text("utf-8")


def test_an_unavailable_kind_is_refused_by_name_and_left_out_otherwise(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    optional = ("pyarrow", "qdrant_client", "lancedb")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name in optional else real(name, *rest),
    )
    folder = ProjectFolder.open(project)
    with fails(UsageError, "package-missing", "pyarrow"):
        export_project(
            folder,
            tmp_path / "taken",
            ["parquet", "chunks"],
        )
    assert not (tmp_path / "taken").exists()
    with fails(UsageError, "export-unknown", "vektors"):
        export_project(
            folder,
            tmp_path / "taken",
            ["vektors"],
        )
    exported = export_project(
        folder,
        tmp_path / "taken",
        ["all"],
    )
    assert set(exported.left_out) == {"parquet", "qdrant", "lancedb"}
    assert "pyarrow" in exported.left_out["parquet"]
    assert exported.with_text == ("vectors", "opensearch", "chunks", "beir")


def test_a_project_that_never_ran_has_nothing_to_export(
    make_project: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = ProjectFolder.open(make_project(tmp_path / "new"))
    for kinds in (None, ["all"], ["chunks"], ["vectors"], ["beir"]):
        with fails(NotBuiltError, "not-built"):
            export_project(
                folder,
                tmp_path / "taken",
                kinds,
            )
    assert not (tmp_path / "taken").exists()


def test_figures_and_model_must_belong_together(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    store = folder.store()
    evaluation = store.artifact(EvaluationInfo)
    trained = store.artifact(AdapterInfo)
    assert evaluation is not None
    assert trained is not None
    served = InUseInfo(
        "interpolated-0.25",
        0.25,
        trained.info.adapter,
    )
    store.put_artifact(
        replace(evaluation, info=replace(evaluation.info, semantic=served, hybrid=served))
    )
    store.close()
    with fails(NotBuiltError, "index-outdated"):
        export_project(
            folder,
            tmp_path / "taken",
            ["model"],
        )


def test_while_a_run_goes_on_nothing_is_exported(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder.open(project)
    with folder.locked(), pytest.raises(ProjectBusyError):
        export_project(
            folder,
            tmp_path / "taken",
            ["chunks"],
        )
