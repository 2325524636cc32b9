"""Words in their forms: spellings, irregular ones, and words of which two share a part."""
