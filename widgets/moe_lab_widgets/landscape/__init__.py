"""The landscape Lab (gated2019): the loss L4 beside the squared error."""
