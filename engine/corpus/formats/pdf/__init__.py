"""PDF files, from PDFium."""
