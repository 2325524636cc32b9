"""A folder as sentence-transformers saves it: the one kind of encoder whose weights can be trained and given away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.encoders.encoder import Abilities, Report, unheard
from engine.encoders.fingerprint import Prompts, encoder_fingerprint, read_prompts
from engine.encoders.model_folder import ModelFolder

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder

_ABILITIES = Abilities(trains=True, exports=True)


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A checked folder. `device` and `dtype`: as the settings of these names have them."""

    folder: ModelFolder
    device: str = "auto"
    dtype: str = "auto"
    abilities: Abilities = _ABILITIES
    server: str = ""

    @property
    def name(self) -> str:
        """The folder's."""
        return self.folder.name

    @property
    def fingerprint(self) -> str:
        """Of weights and configuration, whatever the folder is called."""
        return self.folder.fingerprint

    @property
    def weights_sha256(self) -> str:
        """Of the weights file."""
        return self.folder.weights_sha256

    @property
    def prompts(self) -> Prompts:
        """Those that settings name, else the folder's own."""
        return read_prompts(self.folder)

    @property
    def tokenizer_file(self) -> Path:
        """In the folder."""
        return self.folder.tokenizer_file

    @property
    def max_tokens(self) -> int:
        """As the folder says."""
        return self.folder.max_tokens

    def vectors_fingerprint(self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0) -> str:
        """See `encoder_fingerprint`."""
        return encoder_fingerprint(self.folder, adapter, weight, max_tokens)

    def load(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0, report: Report = unheard
    ) -> Encoder:
        """On the device, and in the precision, that are chosen for this machine. Raises as `TransformerEncoder.load`."""
        from engine.encoders.hardware import choose_hardware
        from engine.encoders.transformer import TransformerEncoder

        hardware = choose_hardware(self.device, self.dtype)
        for choice in hardware.choices:
            report(choice.setting, choice.value, choice.reason)
        return TransformerEncoder.load(
            self.folder, adapter=adapter, adapter_scale=weight, hardware=hardware, max_tokens=max_tokens
        )
