"""Records and what is rendered from them."""
