"""Files → documents → chunks.

In: folders and files that the user names. Out: `ReadDocument`s (text, title, headings), cut into
`engine.core.records.Chunk`s by the encoder's own tokenizer. The chunks go to the lexical room; nothing here keeps state.
`import engine.corpus` loads no tokenizer and no parser.
"""
