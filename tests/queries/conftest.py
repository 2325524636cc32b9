from fixtures.asked_project import asked_project, indexed

__all__ = ["asked_project", "indexed"]
