"""Files → documents → chunks.

In: folders and files that the user names. Out: `ReadDocument`s (text, title, headings), cut into
`engine.core.records.Chunk`s by the encoder's own tokenizer; and judged or training queries from BEIR folders and JSONL
files. The chunks go to the lexical room; nothing here keeps state. `scan` is a function of the
module of that name: `from engine.corpus.scan import scan`. `import engine.corpus` loads no tokenizer and no
parser.
"""
