"""Files → documents → chunks; `import engine.corpus` loads no tokenizer and no parser."""
