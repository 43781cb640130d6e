"""The pruning Lab (pruning2024): which experts can go, by which criterion."""
