"""Reading files in child processes that can do little harm: little memory, little time; on Linux no network, no change to any
file, no other process (see `limits` for what holds where).

In: files. Out: their documents, or the reason why there are none, in the order of the files. Whatever a file makes its
reader do, only a child process is lost by it.
"""
