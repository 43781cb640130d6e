"""Labs that run in a page without Python: what the library computes is recorded once, as operations, and repeated."""
