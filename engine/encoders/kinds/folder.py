"""A sentence-transformers folder: the only kind of encoder that can be trained and exported."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.encoders.encoder import EncoderSource, Report, ignore_choice
from engine.encoders.fingerprint import encoder_fingerprint, read_prompts
from engine.encoders.model_folder import ModelFolder

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder


@dataclass(frozen=True, kw_only=True)
class FolderSource(EncoderSource):
    """A checked folder; `device` and `dtype` are as in the settings."""

    folder: ModelFolder
    device: str
    dtype: str

    @classmethod
    def of(
        cls,
        folder: ModelFolder,
        device: str = "auto",
        dtype: str = "auto",
    ) -> FolderSource:
        """Return the source with the prompts that the settings name, else the folder's own."""
        return cls(
            name=folder.name,
            prompts=read_prompts(folder),
            max_tokens=folder.max_tokens,
            folder=folder,
            tokenizer_file=folder.tokenizer_file,
            device=device,
            dtype=dtype,
            trains=True,
            exports=True,
        )

    @property
    def fingerprint(self) -> str:
        """Identifier of weights and configuration, whatever the folder is called."""
        return self.folder.fingerprint

    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """See `encoder_fingerprint`."""
        return encoder_fingerprint(
            self.folder,
            adapter,
            weight,
            max_tokens,
        )

    @property
    def weights(self) -> Path:
        """See `EncoderSource`."""
        return self.folder.path

    def moved(self, folder: Path, dtype: str) -> FolderSource:
        """See `EncoderSource`."""
        return replace(
            self, folder=replace(self.folder, path=folder), tokenizer_file=None, dtype=dtype
        )

    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = ignore_choice,
    ) -> Encoder:
        """Load the model on the device and in the precision chosen for this machine.

        Raises what `TransformerEncoder.load` raises.
        """
        from engine.encoders.hardware import choose_hardware
        from engine.encoders.transformer import TransformerEncoder

        hardware = choose_hardware(self.device, self.dtype)
        for choice in hardware.choices:
            report(
                choice.setting,
                choice.value,
                choice.reason,
            )
        return TransformerEncoder.load(
            self.folder,
            adapter=adapter,
            adapter_scale=weight,
            hardware=hardware,
            max_tokens=max_tokens,
        )
