"""Studies: the tables and figures of four papers on the user's own data (METHODS.md §6), and
sweeps over settings.

assets/studies.toml says what each study is: trainings (cells), the systems that are looked at, and
what is measured of them. A sweep has a cell for every combination of values of settings. Cells are
trained in a copy of the project; one that was stopped goes on with those that are missing. Judged
questions measure; they choose nothing.
"""
