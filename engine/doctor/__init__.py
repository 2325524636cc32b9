"""What `engine doctor` reports: the machine, the installation, a project."""
