"""Studies, which repeat the tables and figures of four papers on the user's data, and sweeps.

METHODS.md §6 describes them; assets/studies.toml lists each study's trainings (cells), systems and
measures, and a sweep has a cell for every combination of values of settings. Cells are trained in a
copy of the project, an interrupted study resumes with the missing cells, and judged questions
measure but choose nothing.
"""
