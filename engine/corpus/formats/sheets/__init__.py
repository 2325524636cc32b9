"""Spreadsheets as their programs show them: number formats, and the cells they apply to."""
