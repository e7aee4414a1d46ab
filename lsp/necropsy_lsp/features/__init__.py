"""Document events to what an editor shows: one feature per file, see `necropsy_lsp.feature`."""
