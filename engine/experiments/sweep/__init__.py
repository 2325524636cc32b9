"""Sweep: a grid over settings of ranking and training, each cell trained and measured in a copy of the project.

In: a project whose queries are made, and axes such as `ranking.k=200,1000`. Out: nDCG@10 of base and adapted encoder for
every cell, with intervals and paired differences, on held-out (synthetic) and on judged queries, as `sweep.json` and
`sweep.html` in the project's reports. The grids of the BMEmbed paper's tables 9 and 10 are known by name.
"""
