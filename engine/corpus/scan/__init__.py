"""Find the files of a project and the format of each."""
