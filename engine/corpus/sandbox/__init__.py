"""Read files in child processes that can do little harm.

Whatever a file makes its reader do, only a child process is lost. The module `confinement` says
what is enforced on which system.
"""
