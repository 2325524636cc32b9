"""`engine demo`: every stage on the sample corpus that ships with the product."""

from __future__ import annotations

from engine.api import Project
from engine.core.assets import asset_path
from engine.core.errors import UsageError
from engine.project.folder import SAMPLE_TRAINING, locate

NAME = "sample"
NARROW = 100  # columns under which two hits for each search make more than 60 lines
SEARCHES = (
    "who may release a batch without the final test",
    "KL-4400/B shows a straight line in dry ice",
    "what the night shift did when the power failed",
)


def sample_project(name: str = NAME) -> Project:
    """The project over the sample corpus, with its judged questions; made when it is not there yet."""
    if (locate(name) / "project.toml").exists():
        project = Project.open(name)
        if str(asset_path("sample/documents")) not in project.settings().corpus.paths:
            raise UsageError(
                f"{project.path} is not the sample project.", "It was created over other documents.",
                "Give another name with --project.", code="folder-taken",
            )  # fmt: skip
    else:
        project = Project.create(name, [asset_path("sample/documents")], training=SAMPLE_TRAINING)
    project.import_judgments(asset_path("sample/questions.jsonl"))
    return project
