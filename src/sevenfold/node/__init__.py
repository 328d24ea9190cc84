"""One machine's facts and hands: GPUs, CPUs, ports, mounts, processes, models. It knows no engine and no run."""
