"""The router-alignment Lab (pmoe2023): routers learn which patches matter, beside a CNN."""
