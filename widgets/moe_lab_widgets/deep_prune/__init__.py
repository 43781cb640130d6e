"""The deep pruning Lab (pruning2024, section 5.2): experts of a trained V-MoE are pruned, silently or rerouted."""
