"""What every room stands on: parameters, random streams, training, routing, devices, results and sweeps."""
