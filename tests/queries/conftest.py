from fixtures.asked_project import asked_project, indexed, no_pauses

__all__ = ["asked_project", "indexed", "no_pauses"]
