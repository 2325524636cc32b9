"""The extractive generator: queries from the words of the chunks, without a language model."""
